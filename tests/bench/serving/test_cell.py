"""What a load came to, from answers whose times are known."""

import pytest

from sglang_dspine.bench.serving.answer import Answer
from sglang_dspine.bench.serving.cell import Cell, summarise
from sglang_dspine.bench.serving.load import Played


def answer(name: str, start: float, first: float, gaps: list[tuple[float, int]], **more) -> Answer:
    last = first + sum(gap for gap, _ in gaps)
    tokens = 1 + sum(count for _, count in gaps)
    return Answer(name, 0, 0, start, 100, 40, tokens, first, last, 1, gaps, **more)


FAST = answer("a", 0.0, 0.5, [(0.1, 4), (0.1, 4)], rounds=2, accepted=[0, 0, 0, 2], widths=[0, 2], repetition=0.2)
SLOW = answer("b", 1.0, 2.0, [(0.4, 2)] * 5, rounds=5, accepted=[0, 5], widths=[0, 3, 2], repetition=0.6)
FAILED = Answer("c", 0, 1, 0.3, error="status 500")


@pytest.fixture
def cell() -> Cell:
    return summarise(Played((FAST, SLOW, FAILED), 4.0), "arm", 2, 1, 7, {"host_free_low_gib": 3.0})


def test_speed_is_tokens_over_the_whole_load_and_per_user_over_their_own_decoding(cell):
    assert cell.tok_s == (9 + 11) / 4.0
    assert cell.user_tok_s == pytest.approx((8 + 10) / (0.2 + 2.0))  # sums, not a mean of 40 and 5


def test_tokens_of_one_arrival_share_its_gap_and_a_reader_waits_for_the_whole_of_it(cell):
    # per token: eight of 25 ms and ten of 200 ms; per arrival: two of 100 ms and five of 400 ms
    assert cell.itl_ms["50"] == pytest.approx(200) and cell.itl_ms["99"] == pytest.approx(200)
    assert cell.stall_ms["50"] == pytest.approx(400)
    assert cell.ttft_ms["50"] == pytest.approx(750)


def test_accepted_length_is_over_rounds_not_over_requests(cell):
    assert cell.accepted_length == 18 / 7  # the mean of 4 and 2 would be 3
    assert cell.rounds_of == {"a": (8, 2), "b": (10, 5)}
    assert cell.accepted == (0, 5, 0, 2) and cell.widths == (0, 5, 2)


def test_what_failed_is_counted_and_named(cell):
    assert (cell.requests, cell.failed, cell.errors) == (3, 1, ("status 500",))
    assert cell.cached_share == 0.4 and cell.repetition_share == pytest.approx(0.4)


def test_a_cell_comes_back_from_json(cell):
    import json

    assert Cell.from_dict(json.loads(json.dumps(cell.to_dict()))) == cell


def test_fields_of_a_later_version_are_left_out(cell):
    assert Cell.from_dict(cell.to_dict() | {"novelty": 1}) == cell
