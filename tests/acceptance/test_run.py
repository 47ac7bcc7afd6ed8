"""The whole tool on a tiny pair: numbers, resumption, reports, refusals."""

import csv
import json
import shutil

import pytest
import torch
from typer.testing import CliRunner

from sglang_dspine.acceptance import run as module
from sglang_dspine.acceptance.arm import parse_arms
from sglang_dspine.acceptance.report import write_report
from sglang_dspine.acceptance.run import Settings, run
from sglang_dspine.checkpoint.read import load_checkpoint
from sglang_dspine.cli.main import app
from sglang_dspine.errors import DSpineError
from sglang_dspine.reference.drafter import Drafter
from tests.support.checkpoints import edit_tensors
from tests.support.models import dense_qwen3, dflash_drafter, dspine_drafter

ARMS = ("flash {flash}", "dspine {dspine}", "w3 {dspine} width=3", "zeroed {dspine} bridge=zeroed")


def settings(tmp_path, **changes) -> Settings:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"text": f"prompt {i} of a test: "}) + "\n" for i in range(4)))
    arms = parse_arms([arm.format(flash=dflash_drafter(), dspine=dspine_drafter()) for arm in ARMS])
    given = {"per_bucket": 6, "edges": (0, 32, 64), "new_tokens": 36}
    return Settings(dense_qwen3(), arms, (prompts,), tmp_path / "out", tmp_path / "cache", **(given | changes))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    return run(settings(tmp_path_factory.mktemp("accept")))


def test_lengths_are_what_the_reference_and_the_targets_text_give(measured):
    """Counted again, one block at a time, with nothing of the tool but its anchors."""
    config, weights = load_checkpoint(dspine_drafter(), torch.float32)
    cache = measured.settings.cache
    lines = [json.loads(line) for line in (measured.settings.folder / "counts.jsonl").read_text().splitlines()]
    drafted = [line for line in lines if line["key"]["draft"] == f"{dspine_drafter()} width=8 bridge=full"]
    assert len(drafted) == 4
    from safetensors.torch import load_file

    (ends,) = cache.glob("ends-*.safetensors")
    ends = load_file(ends)
    drafter = Drafter(config, weights, ends["embed"], ends["head"])
    for line in drafted:
        captured = load_file(cache / line["key"]["from"])
        for at, length in zip(line["key"]["at"], line["lengths"], strict=True):
            with torch.no_grad():
                proposals = drafter.propose(captured["taps"][None, :at].flatten(2), captured["tokens"][at : at + 1])
            wrong = [
                j for j, token in enumerate(proposals.tokens[0].tolist()) if token != captured["tokens"][at + 1 + j]
            ]
            assert length == (wrong[0] if wrong else 7) + 1


def test_all_arms_have_the_same_anchors_and_the_narrow_one_its_cut(measured):
    lengths = measured.lengths
    assert list(lengths) == ["flash", "dspine", "w3", "zeroed"] and measured.sequences == 4
    assert {int(found.total().sum()) for found in lengths.values()} == {measured.anchors}
    full, cut = lengths["dspine"].total(), lengths["w3"].total()
    assert cut[1:3].tolist() == full[1:3].tolist() and cut[3] == full[3:].sum()


def test_a_run_goes_on_where_it_stopped(measured, tmp_path, monkeypatch):
    done = measured.settings
    book = done.folder / "counts.jsonl"
    whole = book.read_text()
    book.write_text("\n".join(whole.splitlines()[:-3]) + "\n" + whole.splitlines()[-3][:40])  # killed while writing
    opened = []
    open_proposer = module.open_proposer
    monkeypatch.setattr(module, "open_proposer", lambda job, *rest: opened.append(job) or open_proposer(job, *rest))
    monkeypatch.setattr(module, "Target", None)  # every capture is on disk
    again = run(done)
    assert len(opened) == 1
    for arm, lengths in measured.lengths.items():
        assert lengths.total().tolist() == again.lengths[arm].total().tolist()


def test_a_drafter_that_was_trained_on_in_place_is_drafted_anew(measured, tmp_path, monkeypatch):
    from dataclasses import replace

    shutil.copytree(dspine_drafter(), tmp_path / "draft")
    settings = replace(measured.settings, folder=tmp_path / "out", arms=parse_arms([f"d {tmp_path / 'draft'}"]))
    opened = []
    open_proposer = module.open_proposer
    monkeypatch.setattr(module, "open_proposer", lambda job, *rest: opened.append(job) or open_proposer(job, *rest))
    run(settings)
    run(settings)
    assert len(opened) == 1
    edit_tensors(tmp_path / "draft", norm__weight=lambda tensor: tensor * 2)
    run(settings)
    assert len(opened) == 2


def test_other_anchors_are_drafted_anew_from_the_same_captures(measured, monkeypatch):
    from dataclasses import replace

    monkeypatch.setattr(module, "Target", None)
    more = run(replace(measured.settings, per_bucket=7))
    assert more.anchors > measured.anchors


def test_the_targets_own_greedy_text_is_its_argmax(measured):
    from dataclasses import replace

    argmax = run(replace(measured.settings, against="argmax"))
    for arm, lengths in measured.lengths.items():
        assert lengths.total().tolist() == argmax.lengths[arm].total().tolist()


def test_reports_hold_counts_ratios_and_the_published_columns(measured):
    written = write_report(measured)
    folder = measured.settings.folder
    rows = list(csv.DictReader((folder / "ratios.csv").open()))
    assert list(rows[0]) == ["comparison", "ratio", "low", "high", "sequences", "anchors"]
    assert [row["comparison"] for row in rows] == ["dspine / flash", "w3 / flash", "zeroed / flash"]
    assert all(float(row["low"]) <= float(row["ratio"]) <= float(row["high"]) for row in rows)
    found = json.loads((folder / "report.json").read_text())
    assert found["arms"]["flash"]["over_baseline"]["all"]["ratio"] == 1.0
    blocks = list(csv.DictReader((folder / "blocks.csv").open()))
    accepted = sum(int(row["accepted"]) for row in blocks if row["arm"] == "dspine")
    assert accepted / measured.anchors == pytest.approx(found["arms"]["dspine"]["accepted_length"]["all"])
    text = (folder / "report.md").read_text()
    assert "## By context length" in text and "32-64" in text and all(path.exists() for path in written)


def test_texts_without_room_for_a_block_are_refused(tmp_path):
    with pytest.raises(DSpineError, match="none of 4 sequences has an answer of 8 tokens"):
        run(settings(tmp_path, new_tokens=5))


def test_the_command_reports_and_ends_well(tmp_path):
    text = tmp_path / "plain.txt"
    text.write_text("A text of some length, to be read as it is. " * 4)
    other = tmp_path / "other.txt"
    other.write_text("Another text, also to be read as it stands here. " * 4)
    words = ["accept", str(tmp_path / "out"), str(text), str(other), "--target", dense_qwen3(), "--anchors", "5"]
    result = CliRunner().invoke(
        app, [*words, "--arm", f"a {dspine_drafter()}", "--arm", f"b {dspine_drafter()} width=4"]
    )
    assert result.exit_code == 0, result.output
    assert "10 anchors in 2 conversations" in result.output and "over a [95 %]" in result.output


def test_a_drafter_of_another_target_ends_in_one_line(tmp_path):
    text = tmp_path / "plain.txt"
    text.write_text("A text of some length. " * 4)
    words = ["accept", str(tmp_path / "out"), str(text), "--target", dense_qwen3()]
    result = CliRunner().invoke(app, [*words, "--arm", "a demo/draft"])
    assert result.exit_code == 1 and "accept: " in result.output


def test_without_matplotlib_the_report_says_so(measured, monkeypatch):
    from sglang_dspine.acceptance import report

    monkeypatch.setattr(report, "can_plot", lambda: False)
    assert {path.suffix for path in report.write_report(measured)} == {".csv", ".json", ".md"}
    assert "matplotlib is not installed" in (measured.settings.folder / "report.md").read_text()
