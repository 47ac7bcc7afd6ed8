"""The report says what was measured, and what was not."""

import json
from dataclasses import replace

import pytest

from sglang_dspine.agreement import report
from sglang_dspine.agreement.captures import Captures, synthetic
from sglang_dspine.agreement.compare import Acceptance
from sglang_dspine.agreement.measure import measure
from sglang_dspine.checkpoint.convert import Format, convert, plan_conversion
from sglang_dspine.checkpoint.examine import examine_headers
from sglang_dspine.errors import DSpineError
from tests.agreement.test_draft import text_of
from tests.support.checkpoints import TINY, edit_tensors, write_checkpoint

pytestmark = pytest.mark.report(8)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("conversion")
    write_checkpoint(folder / "source")
    return convert(plan_conversion(folder / "source", folder / "made", Format.FP8))


def measured(made, captures, progress=lambda share: None):
    return measure(examine_headers(made.source), examine_headers(made.destination), captures, progress)


@pytest.fixture(scope="module")
def found(made):
    shares = []
    agreement = measured(made, synthetic(TINY), shares.append)
    assert sum(shares) == pytest.approx(1.0)
    return agreement


def test_fp8_moves_something_but_not_much(found):
    assert 0.5 < found.top1 < 1 and 0.6 < found.candidates < 1 and found.rows == 480


def test_bf16_of_bf16_moves_nothing(made, tmp_path):
    same = convert(plan_conversion(made.source, tmp_path / "bf16", Format.BF16))
    agreement = measured(same, synthetic(TINY))
    assert agreement.candidates == agreement.top1 == agreement.proposals == 1.0


def test_json_and_markdown_hold_the_same_numbers(made, found):
    accepted = replace(found, acceptance=Acceptance(5.0, 4.95, 0.99, 0.985, 0.995))
    files = report.texts(made, accepted)
    data, text = json.loads(files["conversion.json"]), files["conversion.md"]
    assert data["total"] == [sum(made.before.values()), sum(made.after.values())]
    for part, (before, after) in data["bytes"].items():
        assert f"| {part} | {before:,} | {after:,} |" in text
    assert data["agreement"]["acceptance"]["ratio"] == 0.99 and "ratio 0.9900 [0.9850, 0.9950]" in text


def test_what_was_not_measured_is_said(made, found):
    rounded = "rounded as every GPU but an H100 or H200 rounds (--rounding ieee)"
    assert report.sentences(made, None) == [rounded, "what changed: not measured"]
    random = [line for line in report.sentences(made, found) if "none of these shares is good or bad" in line]
    assert len(random) == 1 and report.sentences(made, found).index(random[0]) < 4
    assert report.sentences(made, found)[-1].startswith("accepted length: not measured")


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.99, 1.01, "neither is seen to accept more"), (0.97, 0.99, "accepts less"), (1.01, 1.02, "accepts more")],
)
def test_an_interval_is_put_in_words(made, found, low, high, said):
    accepted = replace(found, acceptance=Acceptance(5.0, 5.0, 1.0, low, high))
    assert said in report.sentences(made, accepted)[-1]


def test_one_text_is_not_judged(made, found):
    accepted = replace(found, acceptance=Acceptance(5.0, 4.0, 0.8, None, None))
    assert report.sentences(made, accepted)[-1].endswith("one text gives no interval: pass more --prompts to judge it")
    assert json.loads(report.texts(made, accepted)["conversion.json"])["agreement"]["acceptance"]["low"] is None


def test_how_to_serve_it_is_said(made, tmp_path):
    flags = f"--speculative-draft-model-path {made.destination}"
    assert report.serving(made) == f"{flags} --speculative-draft-model-quantization fp8"
    bf16 = convert(plan_conversion(made.source, tmp_path / "b f", Format.BF16))
    assert report.serving(bf16) == f"--speculative-draft-model-path '{tmp_path / 'b f'}'"


@pytest.mark.parametrize("which", ["source", "destination"])
def test_a_drafter_whose_numbers_overflow_is_not_called_the_same(tmp_path, which):
    write_checkpoint(tmp_path / "source")
    made = convert(plan_conversion(tmp_path / "source", tmp_path / "made", Format.BF16))
    edit_tensors(getattr(made, which), layers__0__mlp__down_proj__weight=lambda tensor: tensor.fill_(3e38))
    seen = [examine_headers(folder) for folder in (made.source, made.destination)]
    with pytest.raises(DSpineError, match="source: drafts" if which == "source" else "source converted: drafts"):
        measure(*seen, synthetic(TINY))


def test_why_a_way_back_to_bf16_changes_proposals_is_said(made, found, tmp_path):
    back = convert(plan_conversion(made.destination, tmp_path / "back", Format.BF16))
    same = convert(plan_conversion(made.source, tmp_path / "same", Format.BF16))
    assert "the weights kept their values" in report.sentences(back, found)[1]
    assert "the new one rounds weights and inputs" in report.sentences(made, found)[2]
    assert report.sentences(same, found)[1] == "neither rounds to FP8"


def test_captures_without_a_whole_block_of_text_are_refused(made):
    base = synthetic(TINY)
    short = Captures((text_of(20, 10),), base.embed, base.head, base.mask, "short")
    with pytest.raises(DSpineError, match="expected a text with 16 tokens written"):
        measured(made, short)
