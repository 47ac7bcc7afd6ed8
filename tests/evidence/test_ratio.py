"""Intervals over sequences: what is lost is found, what is equal is not called different."""

import numpy as np
import pytest

from sglang_dspine.errors import DSpineError
from sglang_dspine.evidence.ratio import Counts, paired_ratio


def blocks(rng: np.random.Generator, sequences: int, share: float = 1.0) -> tuple[Counts, Counts]:
    """Accepted tokens of two arms on the same sequences; the first accepts `share` of what the second does."""
    easy = rng.normal(0, 0.3, sequences)  # a text is easy for both arms
    of = rng.integers(40, 120, sequences)

    def arm(mean: float) -> Counts:
        return Counts(of * mean * np.exp(easy + rng.normal(0, 0.05, sequences)), of)

    return arm(4.0 * share), arm(4.0)


def test_means_come_from_counts_not_from_rates():
    counts = Counts(np.array([10, 300]), np.array([10, 100]))
    assert counts.mean == 310 / 110  # the mean of the rates would be 2


def test_a_tenth_lost_is_found_every_time_with_24_sequences():
    rng = np.random.default_rng(1)
    found = [paired_ratio(*blocks(rng, 24, 0.9), draws=2000) for _ in range(100)]
    assert all(ratio.high < 1 for ratio in found)
    assert np.mean([ratio.value for ratio in found]) == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("sequences", [8, pytest.param(24, marks=pytest.mark.full)])
def test_equal_arms_differ_in_about_one_run_of_twenty(sequences):
    rng = np.random.default_rng(2)
    runs = 600
    wrong = sum(paired_ratio(*blocks(rng, sequences), draws=1000).differs for _ in range(runs))
    assert 0.02 * runs <= wrong <= 0.08 * runs


def test_pairing_matters_texts_differ_more_than_arms():
    rng = np.random.default_rng(3)
    arm, base = blocks(rng, 24, 0.9)
    order = rng.permutation(24)
    shuffled = Counts(base.total[order], base.of[order])
    paired, loose = paired_ratio(arm, base), paired_ratio(arm, shuffled)
    assert paired.differs and not loose.differs
    assert loose.high - loose.low > 3 * (paired.high - paired.low)


def test_the_same_arm_twice_is_exactly_one():
    _, base = blocks(np.random.default_rng(4), 12)
    ratio = paired_ratio(base, base)
    assert (ratio.value, ratio.low, ratio.high) == (1.0, 1.0, 1.0) and not ratio.differs


def test_one_sequence_has_no_interval():
    one = Counts(np.array([4]), np.array([1]))
    with pytest.raises(DSpineError, match="at least 2"):
        paired_ratio(one, one)


def test_arms_of_other_sequences_are_refused():
    with pytest.raises(DSpineError, match="expected the same ones"):
        paired_ratio(Counts(np.ones(3), np.ones(3)), Counts(np.ones(4), np.ones(4)))
