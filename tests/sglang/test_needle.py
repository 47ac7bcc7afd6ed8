"""The planted pair for long contexts does what `tests/gpu/long_context.py` takes for granted, at small scale."""

from __future__ import annotations

import pytest

from ..support.engine import Request
from ..support.needle import ANSWERS, needle_pair, prompt
from ..support.oracle import assert_greedy
from ..support.pairs import EXTRA_BUFFER

pytestmark = pytest.mark.full
LENGTH = 700


@pytest.mark.report(33)
def test_the_needle_is_found_at_any_depth_and_drafted_from_a_window_that_has_lost_it(engines):
    pair = needle_pair(1024, window=64)
    engine = pair.served(engines, **EXTRA_BUFFER)
    for number, depth in enumerate((3, 200, 420, 650)):
        ids = prompt(LENGTH, depth, number)
        (out,) = engine.generate([Request(ids, {"max_new_tokens": 33, "ignore_eos": True})])
        assert out.output_ids == [ANSWERS[number]] * 33
        assert_greedy(pair.target, ids, out.output_ids)
        assert out.accept_lengths[:2] == [16, 16]


def test_without_a_needle_no_answer_is_found(engines):
    engine = needle_pair(1024, window=64).served(engines, **EXTRA_BUFFER)
    ids = [token for token in prompt(LENGTH, 200, 5) if token < 270]
    (out,) = engine.generate([Request(ids, {"max_new_tokens": 4, "ignore_eos": True})])
    assert out.output_ids[0] not in ANSWERS
