"""The order of visits, and a whole run against servers that run already."""

import json

import pytest
from typer.testing import CliRunner

from sglang_dspine.bench.serving.arm import parse_arms
from sglang_dspine.bench.serving.report import render, write_report
from sglang_dspine.bench.serving.results import read_run
from sglang_dspine.bench.serving.run import Plan, order, run
from sglang_dspine.bench.serving.servers import Launch, Servers
from sglang_dspine.cli.main import app
from sglang_dspine.errors import DSpineError
from sglang_dspine.evidence.recorded import Prompt, Recorded

from .stub import Stub, serving

RECORDED = [Recorded(f"c{i}", (Prompt(text=chr(65 + i) * 20), Prompt(text=chr(65 + i) * 40))) for i in range(5)]


def plan(*arms: str, **changes) -> Plan:
    given = {"users": (1, 2), "repetitions": 3, "seed": 7, "sampling": {"temperature": 0, "max_new_tokens": 9}}
    return Plan(parse_arms(arms), **(given | changes), recorded=RECORDED, source="test")


def measure(planned: Plan, folder):
    with Servers(Launch(None, folder=folder), planned.arms, lambda what: lambda seconds, line: None) as servers:
        return run(planned, servers, folder)


def test_visits_go_there_and_back_again():
    a, b, c = parse_arms(["a", "b", "c"])
    assert [arm.name for _, arm in order((a, b, c), 3)] == ["a", "b", "c", "c", "b", "a", "a", "b", "c"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "out"
    slow, fast = Stub(pause=0.001), Stub(pause=0.001, blocks=(4,), speculates=True)
    with serving(slow) as a, serving(fast) as b:
        measure(plan(f"plain url={a}", f"dspine url={b}"), folder)
    return folder, slow, fast


def test_a_run_measures_every_cell_after_one_unmeasured_pass(measured):
    folder, slow, fast = measured
    found = read_run(folder)
    assert found.arms == ["plain", "dspine"] and found.users == [1, 2]
    assert [(c.repetition, c.seed) for c in found.of("dspine", 2)] == [(0, 7), (1, 1007), (2, 2007)]
    assert len(slow.asked) == len(fast.asked) == 10 * (2 * 3 + 1)
    requests = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    assert len(requests) == 10 * 2 * 3 * 2 and {r["arm"] for r in requests} == {"plain", "dspine"}
    assert found.header["workload"]["turns"] == 10 and found.header["seeds"] == [7, 1007, 2007]


def test_its_report_says_what_was_measured_and_what_may_be_said(measured):
    folder, _, _ = measured
    written = write_report(read_run(folder), folder, gate=10.0)
    text = (folder / "report.md").read_text()
    assert folder / "cells.csv" in written and len((folder / "cells.csv").read_text().splitlines()) == 13
    assert "| users | plain | dspine |" in text and "## dspine over plain" in text
    assert "4.00 [4.00-4.00] (3)" in text
    assert "Rounds by accepted proposals" in text and "Rounds by verify width" in text and "fingerprint" in text


def test_what_each_server_says_it_runs_with_is_kept_and_no_secret(measured):
    folder, _, _ = measured
    assert "(dtype float32, context_length 1000)" in (text := render(read_run(folder))) and "secret" not in text
    assert "secret" not in (folder / "run.json").read_text()


def test_a_cell_that_scatters_is_marked_and_not_quoted_as_a_win(measured):
    folder, _, _ = measured
    text = render(read_run(folder), gate=1e-6)
    assert "not quoted: spread" in text and "faster" not in text and " ~ |" in text


def test_a_cold_run_empties_the_cache_before_each_cell(tmp_path):
    stub = Stub()
    with serving(stub) as url:
        measure(plan(f"a url={url}", users=(1,), repetitions=2, cold=True), tmp_path / "out")
    assert stub.flushed == 2


def test_too_few_conversations_for_the_users_are_refused(tmp_path):
    with serving(Stub()) as url, pytest.raises(DSpineError, match="5 conversations cannot keep 8 users busy"):
        measure(plan(f"a url={url}", users=(8,)), tmp_path / "out")


def test_a_prompt_without_room_for_its_answer_is_refused_before_anything_runs(tmp_path):
    stub = Stub(context=45)
    with serving(stub) as url, pytest.raises(DSpineError, match="need 49 tokens, the server's context has 45"):
        measure(plan(f"a url={url}"), tmp_path / "out")
    assert stub.asked == []


def test_a_server_that_answers_nothing_ends_the_run_and_what_was_measured_stays(tmp_path):
    good, bad = Stub(), Stub(fails=tuple(range(65, 75)))
    with serving(good) as a, serving(bad) as b, pytest.raises(DSpineError, match="no request was answered"):
        measure(plan(f"good url={a}", f"bad url={b}"), tmp_path / "out")
    assert [(c.arm, c.failed) for c in read_run(tmp_path / "out").cells] == [("good", 0), ("good", 0), ("bad", 10)]


def test_a_folder_with_a_run_is_not_overwritten(measured):
    folder, _, _ = measured
    with serving(Stub()) as url, pytest.raises(DSpineError, match="holds a run already"):
        measure(plan(f"a url={url}"), folder)


def test_the_command_measures_and_reports(tmp_path):
    with serving(Stub(context=10_000)) as a, serving(Stub(blocks=(4,), speculates=True)) as b:
        words = ["bench", str(tmp_path / "out"), "--arm", f"plain url={a}", "--arm", f"dspine url={b}"]
        words += ["--users", "1,2", "-n", "2", "--conversations", "2", "--depth", "1", "--characters", "100"]
        result = CliRunner().invoke(app, [*words, "--new-tokens", "9"])
    assert result.exit_code == 0, result.output
    assert "dspine over plain" in result.output and "synthetic agent workload" in result.output
    assert (tmp_path / "out" / "report.md").exists()


@pytest.mark.parametrize("users", ["0", "a", "1,1", ""])
def test_users_that_are_no_numbers_are_refused(users, tmp_path):
    result = CliRunner().invoke(app, ["bench", str(tmp_path / "out"), "--arm", "a url=http://x", "--users", users])
    assert result.exit_code == 1 and "expected different numbers from 1" in result.output
