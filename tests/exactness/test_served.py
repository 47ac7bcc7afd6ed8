"""E2 and E4 through HTTP, against a server whose law and faults are known."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from sglang_dspine.errors import DSpineError
from sglang_dspine.exactness.__main__ import app, parse_setting, split_length
from sglang_dspine.exactness.endpoint import Endpoint, EndpointError
from sglang_dspine.exactness.filters import Sampling, target_law
from sglang_dspine.exactness.sampled_report import against_control, against_law, report
from sglang_dspine.exactness.samples import Samples, cells_of
from sglang_dspine.exactness.served_rows import accepted_before, compare_row, served_rows
from sglang_dspine.exactness.served_samples import deepest, draw, laws_of_rows, rows_of_cells
from sglang_dspine.exactness.served_setting import Plan, judge_setting

from .stub_server import VOCAB, Stub, serving, target_row

PROMPTS = [[1, 2], [3, 4]]
ROUNDED = [[i, j] for i in range(4) for j in range(5)]
NUCLEUS = Sampling(top_k=4, top_p=0.8)


def e4(stub, sampling, requests=700, control=None):
    with serving(stub) as url:
        server = Endpoint(url, concurrency=2)
        samples, accepted = draw(server, PROMPTS, sampling, requests=requests, length=3)
        if control is not None:
            with serving(control) as other:
                plain, _ = draw(Endpoint(other), PROMPTS, sampling, requests=requests, length=3)
            return against_control("", samples, plain, accepted)
        first = cells_of(Samples(samples.prompt, samples.tokens[:, :1]), 1)
        laws, first_laws = (
            laws_of_rows(rows_of_cells(server, PROMPTS, cells, top=VOCAB), sampling, vocab_size=VOCAB)
            for cells in (cells_of(samples), first)
        )
    return against_law("", samples, laws, first_laws, accepted)


def test_a_server_of_the_right_law_passes_and_says_that_it_was_small():
    found = report([e4(Stub(), NUCLEUS)], "", runs=5)
    assert found.facts["rejections"] == 0
    assert found.facts["tests"] >= 5
    assert "fewer than 9000 requests" in found.lines[-1]


def test_fault_21_at_e4_a_server_that_cuts_top_k_first_is_rejected():
    found = report([e4(Stub(law=partial(target_law, order="top_k_first")), NUCLEUS, requests=300)], "", runs=2)
    assert not found.passed
    assert any("reference does not hold" in line for line in found.lines)


def test_a_server_that_ignores_the_temperature_is_rejected_by_a_control():
    hot = Stub(law=lambda row, sampling: target_law(row, Sampling()))
    setting = e4(hot, Sampling(temperature=0.7), requests=250, control=Stub())
    assert report([setting], "", runs=2).facts["rejections"] > 0


def test_a_report_without_power_does_not_pass():
    setting = e4(Stub(), Sampling(temperature=0.7), requests=60)
    found = report([setting], "", runs=10)
    assert found.facts["rejections"] == 0
    assert not found.passed
    assert any(line.startswith("power below 95%") for line in found.lines)


def test_rows_whose_cut_hangs_on_rounding_are_left_out_and_counted():
    def judged(rounding, requests=400):
        plan = Plan(requests, 3, top=VOCAB, vocab_size=VOCAB, rounding=rounding)
        with serving(Stub(decode_noise=0.02)) as url:
            return report([judge_setting(Endpoint(url), None, ROUNDED, NUCLEUS, "", plan)], "", runs=2)

    strict, loose = judged(0.0), judged(0.08)
    assert strict.facts["rejections"] > 0 and strict.facts["left_out"] == {"": 0}
    assert loose.facts["rejections"] == 0 and 0 < loose.facts["left_out"][""] < 0.9
    assert any("rounding decides" in line for line in loose.lines)


def test_where_every_cut_hangs_on_rounding_nothing_is_judged():
    with serving(Stub()) as url, pytest.raises(DSpineError, match="every cut hangs on a rounding of 9"):
        judge_setting(Endpoint(url), None, PROMPTS, NUCLEUS, "x", Plan(20, 3, top=VOCAB, vocab_size=VOCAB, rounding=9))


def test_laws_are_those_of_the_targets_rows():
    samples = Samples(np.array([0, 0, 1]), np.array([[5, 6, 7], [5, 8, 7], [9, 6, 1]]))
    cells = cells_of(samples)
    with serving(Stub()) as url:
        laws = laws_of_rows(rows_of_cells(Endpoint(url), PROMPTS, cells, top=8), NUCLEUS, vocab_size=VOCAB)
    for s in range(len(cells)):
        expected = target_law(target_row([*PROMPTS[cells.prompt[s]], *cells.prefix[s]]), NUCLEUS)
        listed = laws.ids[s] >= 0
        np.testing.assert_allclose(laws.probs[s][listed], expected[laws.ids[s][listed]], atol=1e-6)
        assert laws.probs[s].sum() + laws.rest[s] == pytest.approx(1)


def test_one_rescore_serves_all_prefixes_of_a_sequence():
    nodes = [(0, ()), (0, (1,)), (0, (1, 2)), (0, (1, 3)), (1, (1,))]
    assert sorted(deepest(nodes)) == [(0, (1, 2)), (0, (1, 3)), (1, (1,))]


def test_rows_of_a_noisy_server_are_wider_than_a_quiet_controls():
    with serving(Stub(blocks=(1, 3, 2), decode_noise=1e-2)) as noisy, serving(Stub(decode_noise=1e-3)) as quiet:
        wide = served_rows(Endpoint(noisy), PROMPTS, max_new_tokens=20, top=8)
        narrow = served_rows(Endpoint(quiet), PROMPTS, max_new_tokens=20, top=8)
    assert len(wide) == len(narrow) == 40
    assert np.median(wide.delta) > 5 * np.median(narrow.delta) > 0
    assert wide.position.tolist() == [*range(1, 21)] * 2
    assert wide.accepted.tolist()[:8] == [0, 0, 0, 0, 3, 3, 2, 2]
    assert set(narrow.accepted) <= {0, 1}


def test_accepted_lengths_belong_to_the_round_before():
    assert accepted_before([1, 4, 2, 3]) == [0, 0, 0, 0, 0, 4, 4, 2, 2, 2]
    assert accepted_before([]) == []


def test_rows_are_compared_over_tokens_both_lists_name():
    used, rescored = [(-0.5, 7), (-1.5, 8), (-4.0, 9)], [(-0.6, 8), (-0.7, 7), (-9.0, 3)]
    delta, margin, flipped = compare_row(used, rescored)
    assert delta == pytest.approx(0.9)
    assert margin == pytest.approx(0.1)
    assert flipped
    assert compare_row(used, [(-1.0, 3), (-2.0, 4)])[0] == float("inf")
    assert compare_row([(float("nan"), 7)], [(-1.0, 7), (-2.0, 4)])[0] == float("inf")


@pytest.mark.parametrize("start", [0, 3, 9])
def test_a_row_needs_a_token_before_it_and_one_to_predict(start):
    with pytest.raises(EndpointError, match="cannot score"):
        Endpoint("http://127.0.0.1:9").score([1, 2, 3], start)


def test_settings_are_read_by_name():
    assert parse_setting("temperature=0.7 top_k=20") == Sampling(temperature=0.7, top_k=20)
    for wrong in ("temprature=1", "top_k=2.5", "top_p=0"):
        with pytest.raises(DSpineError, match="expected"):
            parse_setting(wrong)


def test_power_is_the_same_in_other_processes():
    setting = e4(Stub(), NUCLEUS, requests=120)
    one, two = (report([setting], "", runs=2, processes=n).tables[1].rows for n in (1, 2))
    assert one == two


def test_a_setting_may_have_a_length_of_its_own():
    assert split_length("temperature=0.2 length=12", 6) == ("temperature=0.2", 12)
    assert split_length("top_k=4", 6) == ("top_k=4", 6)
    for wrong in ("length=1", "length=x", "length=4 length=5"):
        with pytest.raises(DSpineError, match="length of at least 2"):
            split_length(wrong, 6)


def test_prompts_are_chosen_by_a_pilot():
    sampling, plan = Sampling(temperature=0.7), Plan(requests=200, length=3, pilot=60, keep=1, top=VOCAB)
    with serving(Stub()) as url:
        found = judge_setting(Endpoint(url, concurrency=2), None, PROMPTS, sampling, "", plan)
    assert found.requests == 200 and not any(t.name.startswith("prompt 1") for t in found.tests)


def test_the_commands_exit_2_when_nothing_can_be_judged(tmp_path):
    path = tmp_path / "p.txt"
    path.write_text("x\n")
    where = ["--url", "http://127.0.0.1:9", "--prompts", str(path)]
    for command in (["e2", *where], ["e4", *where, "--setting", "top_k=3"], ["e4", *where, "--setting", "k=3"]):
        assert CliRunner().invoke(app, command).exit_code == 2


def test_the_commands_end_with_the_verdict(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text("[1, 2]\n[3, 4]\n[5]\n[6]\n")
    with serving(Stub(decode_noise=1e-3)) as url, serving(Stub(decode_noise=1e-3)) as control:
        e2 = ["e2", "--url", url, "--prompts", str(path), "--top", "8", "--max-new-tokens", "120"]
        passed = CliRunner().invoke(app, [*e2, "--control-url", control, "--json", str(tmp_path / "e2.json")])
        alone = CliRunner().invoke(app, e2)
        few = ["e4", "--url", url, "--prompts", str(path), "--setting", "top_k=4", "--requests", "40", "--top", "8"]
        weak = CliRunner().invoke(app, [*few, "--power-runs", "2", "--control-url", control])
    assert passed.exit_code == 0, passed.output
    assert (tmp_path / "e2.json").exists()
    assert alone.exit_code == 1
    assert "no control" in alone.output
    assert weak.exit_code == 1, weak.output
    assert "power below" in weak.output
