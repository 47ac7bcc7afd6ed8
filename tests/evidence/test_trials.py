"""Repeated trials: a slowdown of a tenth is found, equal arms are not called different."""

import numpy as np
import pytest

from sglang_dspine.evidence.trials import interleaved_ratio, separate_ratio

NOISE, DRIFT = 0.01, 0.03  # of a trial; of the machine between repetitions, the same for arms side by side


def timed(rng: np.random.Generator, speed: float, shared: np.ndarray) -> np.ndarray:
    return speed * np.exp(shared + rng.normal(0, NOISE, len(shared)))


@pytest.mark.parametrize("form", [interleaved_ratio, separate_ratio])
def test_equal_arms_differ_in_at_most_one_run_of_twenty(form):
    rng = np.random.default_rng(1)
    runs, wrong = 1500, 0
    for _ in range(runs):
        drift = rng.normal(0, DRIFT, 5)
        arm = timed(rng, 100, drift)
        base = timed(rng, 100, drift if form is interleaved_ratio else rng.normal(0, DRIFT, 5))
        wrong += form(arm, base).differs
    assert 0.025 * runs <= wrong <= 0.065 * runs  # Welch's form errs on the careful side with five


def test_a_tenth_slower_is_found_by_five_interleaved_repetitions():
    rng = np.random.default_rng(2)
    for _ in range(200):
        drift = rng.normal(0, DRIFT, 5)
        ratio = interleaved_ratio(timed(rng, 90, drift), timed(rng, 100, drift))
        assert ratio.high < 1 and ratio.p < 0.05 and ratio.value == pytest.approx(0.9, abs=0.05)


def test_interleaving_takes_the_drift_out():
    rng = np.random.default_rng(3)
    drift = rng.normal(0, 0.1, 6)
    arm, base = timed(rng, 90, drift), timed(rng, 100, drift)
    paired, loose = interleaved_ratio(arm, base), separate_ratio(arm, base)
    assert paired.differs and not loose.differs


def test_one_repetition_says_nothing():
    assert interleaved_ratio([90], [100]) is None and separate_ratio([90], [100, 101]) is None


@pytest.mark.parametrize("form", [interleaved_ratio, separate_ratio])
def test_repetitions_that_never_differ_tell_nothing_of_chance(form):
    ratio = form([3.0, 3.0], [4.0, 4.0])
    assert ratio.value == pytest.approx(0.75) and np.isnan(ratio.p) and not ratio.differs and str(ratio) == "x0.750"
    same = form([3.0, 3.0], [3.0, 3.0])
    assert (same.value, same.p, same.differs) == (1.0, 1.0, False)


def test_the_interval_and_the_p_value_agree():
    rng = np.random.default_rng(4)
    for _ in range(300):
        ratio = separate_ratio(rng.normal(100, 2, 4), rng.normal(102, 3, 6))
        assert ratio.differs == (ratio.p < 0.05)
