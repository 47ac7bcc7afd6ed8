"""An SPS table is read strictly, and the offending entry is named (reports 13 and 31)."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang_dspine.widths.parse import TableError, check_block, load_table, parse_table, render_table

GOOD = {
    "version": 1,
    "widths": [16, 16, 8, 0],
    "provenance": {"gpu": "NVIDIA H200", "source": "tune_sps.py"},
    "step_ms": {"batches": [1, 4], "widths": [1, 8, 16], "ms": [[20, 21, 22], [20.5, 23, 27]]},
    "acceptance": [0.8, 0.85],
}
WRONG = {
    "version": (("version",), 2, "version is 2"),
    "no widths": (("widths",), [], "widths is"),
    "a width below 0": (("widths", 1), -1, r"widths\[1\] \(batch 2\) is -1"),
    "a width beyond any block": (("widths", 2), 65, r"widths\[2\] \(batch 3\) is 65"),
    "a width that is a text": (("widths", 0), "16", r"widths\[0\] \(batch 1\) is '16'"),
    "a width that is a truth value": (("widths", 0), True, r"widths\[0\] \(batch 1\) is True"),
    "no GPU": (("provenance", "gpu"), "", r"provenance\.gpu"),
    "no provenance": (("provenance",), None, "provenance is None"),
    "step times that are a list": (("step_ms",), [[20, 21, 22]], r"step_ms is \[\["),
    "step times with a note": (("step_ms", "note"), "", r"step_ms is .*'note'"),
    "batches that fall": (("step_ms", "batches"), [4, 1], r"step_ms\.batches"),
    "a batch measured twice": (("step_ms", "batches"), [4, 4], r"step_ms\.batches is \[4, 4\]"),
    "a batch of 0": (("step_ms", "batches"), [0, 4], r"step_ms\.batches is \[0, 4\]"),
    "a width and a half": (("step_ms", "widths"), [1, 8.5, 16], r"step_ms\.widths is \[1, 8\.5"),
    "no measured width": (("step_ms", "widths"), [], r"step_ms\.widths is \[\]"),
    "a row too few": (("step_ms", "ms"), [[1, 2, 3]], r"step_ms\.ms is"),
    "a hole": (("step_ms", "ms", 1), [20.5, 23], r"step_ms\.ms\[1\] \(batch 4\)"),
    "a time of 0": (("step_ms", "ms", 1, 2), 0, r"step_ms\.ms\[1\]\[2\] \(batch 4, width 16\) is 0"),
    "a time that is a text": (("step_ms", "ms", 0, 1), "21", r"step_ms\.ms\[0\]\[1\] \(batch 1, width 8\) is '21'"),
    "a time that is not a number": (("step_ms", "ms", 0, 1), float("nan"), r"step_ms\.ms\[0\]\[1\] .* is nan"),
    "a probability that is a truth value": (("acceptance", 0), True, r"acceptance\[0\] \(position 1\) is True"),
    "a probability that is not a number": (("acceptance", 0), float("nan"), r"acceptance\[0\] .* is nan"),
    "no probability": (("acceptance",), [], r"acceptance is \[\]"),
    "a probability above 1": (("acceptance", 1), 1.2, r"acceptance\[1\] \(position 2\) is 1\.2"),
    "an unknown key": (("last_entry",), "batch 8", "'last_entry' is 'unknown'"),
}  # fmt: skip

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
KEYS = st.sampled_from([*GOOD, "batches", "ms", "gpu"])
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner))


def changed(path, value):
    raw = copy.deepcopy(GOOD)
    place = raw
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return raw


def test_each_batch_has_its_width_and_the_last_entry_is_open_ended():
    table = parse_table(GOOD, "t")
    assert [table.width_of(b) for b in (1, 2, 3, 4, 5, 400)] == [16, 16, 8, 1, 1, 1]
    assert table.widest == 16 and table.gpu == "NVIDIA H200"


def test_step_times_lie_on_the_line_between_measurements_and_go_on_beyond_the_last():
    cost = parse_table(GOOD, "t").cost
    assert cost(1, 8) == 21 and cost(4, 8) == 23
    assert cost(2, 8) == pytest.approx(21 + 2 / 3)
    assert cost(7, 8) == pytest.approx(25)


@pytest.mark.parametrize(("path", "value", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_entry_is_named(path, value, said):
    with pytest.raises(TableError, match=said):
        parse_table(changed(path, value), "t")


def test_a_width_beyond_the_drafters_block_is_named_with_the_block():
    with pytest.raises(TableError, match=r"widths\[0\] \(batch 1\) is 16; expected at most the block 8"):
        check_block(parse_table(GOOD, "t"), 8)


def test_what_is_rendered_is_read_back_the_same():
    table = parse_table(GOOD, "t")
    assert parse_table(json.loads(json.dumps(render_table(table))), "t") == table


def test_a_table_of_widths_alone_is_read_back_the_same_too():
    raw = {key: GOOD[key] for key in ("version", "widths", "provenance")}
    table = parse_table(raw, "t")
    assert table.cost is None and table.acceptance == () and parse_table(render_table(table), "t") == table


def test_one_position_is_enough_and_it_may_never_or_always_be_accepted():
    for acceptance in ([1, 0], [0.5]):
        assert parse_table(changed(("acceptance",), acceptance), "t").acceptance == tuple(acceptance)


def test_the_widest_block_and_a_round_of_half_a_millisecond_are_read():
    assert parse_table(changed(("widths",), [64]), "t").width_of(1) == 64
    assert parse_table(changed(("step_ms", "ms", 0, 0), 0.5), "t").cost(1, 1) == 0.5


@pytest.mark.parametrize("text", [None, "{", "[]", "3"])
def test_a_file_that_is_no_table_is_named(tmp_path, text):
    path = tmp_path / "sps.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(TableError, match=r"sps\.json"):
        load_table(path)


@given(JSON)
def test_no_json_crashes_the_reader(raw):
    with pytest.raises(TableError):
        parse_table(raw, "t")
