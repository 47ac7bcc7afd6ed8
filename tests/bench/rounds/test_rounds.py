"""The arithmetic of round cost, and what is read from a profile; no server, no GPU."""

from __future__ import annotations

import gzip
import json

import httpx
import pytest

from sglang_dspine.bench.rounds.arms import PAIRS, WAYS, Room, command, row_name
from sglang_dspine.bench.rounds.measure import Sample, force_width, has_table, prompts, rounds_of
from sglang_dspine.bench.rounds.report import Row, floor_ms, markdown, merged, read_csv, write_csv
from sglang_dspine.bench.rounds.shapes import write_shapes
from sglang_dspine.bench.rounds.trace import profile_of, read_trace
from sglang_dspine.config.parse import load_config

COLUMNS = (
    "arm,context,users,width,round_ms,round_ms_min,round_ms_max,draft_ms,draft_floor_ms,decode_tok_s,launches,memory_gb"
)


def test_a_round_costs_the_extra_seconds_over_the_extra_rounds():
    pairs = [(Sample(1.0, 10, 5), Sample(3.0, 110, 105)), (Sample(1.0, 10, 5), Sample(5.0, 110, 105))]
    found = rounds_of(pairs)
    assert found.ms == pytest.approx((30.0, 20.0, 40.0)) and found.tok_s == pytest.approx(37.5)


def test_answers_without_extra_rounds_are_refused():
    with pytest.raises(ValueError, match="no more rounds"):
        rounds_of([(Sample(1.0, 10, 5), Sample(2.0, 20, 5))])


def test_equal_seeds_give_equal_prompts_and_other_seeds_others():
    assert prompts(2, 5, 7) == prompts(2, 5, 7) != prompts(2, 5, 8)
    assert [len(ids) for ids in prompts(3, 11, 0)] == [11] * 3


def call(name: str, correlation: int) -> dict:
    return {"cat": "cuda_runtime", "name": name, "args": {"correlation": correlation}}


def kernel(correlation: int, begin: float, duration: float) -> dict:
    return {"cat": "kernel", "name": "k", "ts": begin, "dur": duration, "args": {"correlation": correlation}}


def rounds_trace(count: int) -> list[dict]:
    """Per round: a draft graph of 2 ms in two kernels, a verify graph of 10 ms, three launches between."""
    events = []
    for i in range(count):
        at, n = 20_000.0 * i, 10 * i
        events += [call("cudaGraphLaunch", n), kernel(n, at, 500), kernel(n, at + 1500, 500)]
        events += [call("cudaLaunchKernel", n + 1), kernel(n + 1, at + 2500, 5)]
        events += [call("cuLaunchKernelEx", n + 2), call("cudaMemcpyAsync", n + 3)]
        events += [call("cudaGraphLaunch_v10000", n + 4), kernel(n + 4, at + 3000, 10_000)]
        events += [call("cudaEventRecord", n + 5), {"name": "cpu_op", "ts": at}]
    return events


def test_the_draft_is_the_shorter_graph_and_every_launch_counts(tmp_path):
    path = tmp_path / "x.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": rounds_trace(4)}).encode()))
    found = profile_of(read_trace(path), speculative=True)
    assert found is not None and found.launches == 5 and found.draft_ms == pytest.approx(2.0)


def test_plain_decode_has_no_draft_and_an_eager_server_no_profile():
    found = profile_of(rounds_trace(3)[:7], speculative=False)
    assert found is not None and found.draft_ms is None
    assert profile_of([call("cudaLaunchKernel", 1), kernel(1, 0, 5)], speculative=True) is None


def row(arm: str = "dspine-8", ms: float = 10.0, **more) -> Row:
    values = dict(context=1024, users=8, width=8, round_ms_min=ms, round_ms_max=ms, draft_ms=None, draft_floor_ms=1.5)
    return Row(arm=arm, round_ms=ms, **(values | dict(decode_tok_s=99.0, launches=12.0, memory_gb=None) | more))


def test_the_csv_has_the_named_columns_and_comes_back_as_it_went(tmp_path):
    rows = [row(), row("plain", 7.5, width=1, draft_floor_ms=None)]
    write_csv(tmp_path / "a" / "rounds.csv", rows)
    assert (tmp_path / "a" / "rounds.csv").read_text().splitlines()[0] == COLUMNS
    assert read_csv(tmp_path / "a" / "rounds.csv") == rows and read_csv(tmp_path / "none.csv") == []


def test_a_later_run_replaces_its_own_cells_only():
    assert merged([row(ms=1.0), row("plain", 2.0)], [row(ms=3.0)]) == [row("plain", 2.0), row(ms=3.0)]


def test_the_table_states_the_ratio_to_the_anchor_and_marks_a_wide_range():
    text = markdown([row("dflash2-8", 8.0), row(ms=10.0, round_ms_max=11.0)])
    line = next(line for line in text.splitlines() if "dspine-8" in line)
    assert "| 1.250 |" in line and "range above 5 %" in line
    assert "range above" not in next(line for line in text.splitlines() if "dflash2" in line)


def test_no_ratio_is_taken_over_two_runs():
    """A pair measured later brings an anchor of its own."""
    first = [row(row_name("dflash2-8", "dspine"), 30.0), row("dspine-8", 30.0)]
    second = [row(row_name("dflash2-8", "dspark"), 36.0), row("dspark-7", 36.0)]
    text = markdown(merged(first, second))
    assert [line.split("|")[5].strip() for line in text.splitlines()[2:]] == ["1.000"] * 4


@pytest.mark.parametrize("answer", [[False], [], [True, False]])
def test_a_width_that_the_server_refuses_is_no_measurement(answer):
    http = httpx.Client(
        base_url="http://server", transport=httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
    )
    with pytest.raises(ValueError, match="width 8 was refused"):
        force_width(http, 8)


@pytest.mark.parametrize(("policy", "found"), [("fixed", False), ("table", True), ("adaptive", True)])
def test_a_server_without_a_table_has_no_row_for_one(policy, found):
    info = {"internal_states": [{"dspine": {"policy": policy}}]}
    http = httpx.Client(
        base_url="http://server", transport=httpx.MockTransport(lambda _: httpx.Response(200, json=info))
    )
    assert has_table(http) is found


def test_the_longer_window_costs_what_its_bytes_cost():
    """168 MB against 42 MB a user: 8,192 or 2,048 positions, 5 layers, 8 heads of 128, K and V in BF16."""
    wide, narrow = (floor_ms(1, 8, 8192, window, True, 1e12)[0] for window in (8192, 2048))
    assert wide - narrow == pytest.approx((8192 - 2048) * 5 * 8 * 128 * 2 * 2 / 1e9)


def test_shapes_are_configs_that_load(tmp_path):
    write_shapes(tmp_path)
    assert load_config(tmp_path / "dspine").block_size == 16
    for name in ("target", "dflash2", "dspark"):
        config = json.loads((tmp_path / name / "config.json").read_text())
        assert config["hidden_size"] == 5120 and config["vocab_size"] == 248320


def test_every_pair_is_anchored_in_the_same_way_and_every_server_has_a_command(tmp_path):
    names = {way.name for way in WAYS}
    assert all(set(pair) <= names and pair[0] == "dflash2-8" for pair in PAIRS.values())
    for way in WAYS:
        words = command(way.server, tmp_path, 1234, Room(users=8)).words
        assert ("--speculative-algorithm" in words) == (way.server != "plain")
        assert words[words.index("--cuda-graph-bs-decode") + 1 :][:2] == ["1", "8"]
