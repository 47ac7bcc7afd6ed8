"""Rows whose cut hangs on rounding, against rows that were rounded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_dspine.exactness.cuts import cut_is_open
from sglang_dspine.exactness.filters import Sampling, softmax, target_law

TINY = 1e-9  # a last token of less is none: a sum of all masses may pass 1 by a rounding of its own
SETTINGS = [
    Sampling(top_p=0.9), Sampling(top_k=4), Sampling(temperature=0.7, top_k=5, top_p=0.8), Sampling(min_p=0.1),
    Sampling(temperature=1.5, top_p=0.95, min_p=0.05),
]  # fmt: skip


def logprobs(*masses: float) -> np.ndarray:
    return np.log(np.array(masses))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(SETTINGS), st.sampled_from(["joint", "top_k_first"]))
def test_rounding_never_changes_what_a_closed_cut_keeps(seed, sampling, order):
    draw, rounding = np.random.default_rng(seed), 0.02
    row = np.log(softmax(2 * draw.normal(size=12)))
    if cut_is_open(row, sampling, rounding, order=order):
        return
    kept = target_law(row, sampling, order) > TINY
    for _ in range(30):
        moved = row + draw.choice([-rounding, rounding], size=12)
        assert ((target_law(moved, sampling, order) > TINY) == kept).all()


@pytest.mark.parametrize(
    ("row", "sampling"),
    [
        (logprobs(0.6, 0.301, 0.069, 0.03), Sampling(top_p=0.9)),  # the third is kept: 0.901 is barely above 0.9
        (logprobs(0.6, 0.299, 0.071, 0.03), Sampling(top_p=0.9)),
        (logprobs(0.6, 0.2, 0.1005, 0.0995), Sampling(top_k=3)),
        (logprobs(0.6, 0.28, 0.0605, 0.0595), Sampling(min_p=0.1)),
        (logprobs(0.45, 0.2, 0.176, 0.174), Sampling(top_p=0.7)),  # the third and the fourth may change places
    ],
)
def test_a_cut_next_to_its_threshold_is_open(row, sampling):
    assert cut_is_open(row, sampling, 0.01)
    assert not cut_is_open(row, sampling, 1e-5)


def test_without_a_cut_or_without_rounding_nothing_is_open():
    row = logprobs(0.5, 0.26, 0.12, 0.12)
    assert not cut_is_open(row, Sampling(temperature=1.5), 0.1)
    assert not cut_is_open(row, Sampling(top_k=3), 0.0)
    assert not cut_is_open(row, Sampling(temperature=0), 0.1)


def test_a_list_too_short_to_be_cut_is_closed_at_its_end():
    assert not cut_is_open(logprobs(0.5, 0.3), Sampling(), 0.01)
