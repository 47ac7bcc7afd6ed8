"""Holm, the score tests, and why small classes need a simulated p-value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, chi2_contingency, chisquare

from sglang_dspine.exactness.filters import softmax
from sglang_dspine.exactness.statistics import DRAWS, Test, against_law, holm, merge_rare, settle, two_sample


def rejected_by_steps(p, alpha):
    """Holm's procedure as it is told: smallest first, stop at the first that survives."""
    rejected = set()
    for step, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if p[i] * (len(p) - step) > alpha:
            break
        rejected.add(i)
    return rejected


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.sampled_from([0.01, 0.05, 0.3]))
def test_holm_rejects_what_the_stepwise_procedure_rejects(p, alpha):
    corrected = holm(np.array(p))
    assert {i for i, c in enumerate(corrected) if c <= alpha} == rejected_by_steps(p, alpha)


def test_one_stratum_is_pearsons_test():
    law = np.array([0.5, 0.3, 0.2])
    counts = np.array([60, 25, 15])
    test = against_law("", counts[None], law[None])
    expected = chisquare(counts, counts.sum() * law)
    assert test.statistic == pytest.approx(expected.statistic)
    assert test.p == pytest.approx(expected.pvalue)
    assert test.df == 2


def test_two_arms_of_one_stratum_are_the_contingency_test():
    a, b = np.array([50, 30, 20]), np.array([70, 25, 45])
    test = two_sample("", a[None], b[None])
    pearson = chi2_contingency(np.stack([a, b]), correction=False)
    n = (a + b).sum()
    assert test.df == pearson.dof
    assert test.statistic == pytest.approx(pearson.statistic * (n - 1) / n)  # given both margins


def test_strata_seen_a_few_times_add_up():
    """200 prefixes of 3 tokens each say nothing alone; together their ranks reject a wrong law and keep a right one."""
    rng = np.random.default_rng(0)
    law = -np.sort(-softmax(2 * rng.normal(size=(200, 4))), axis=1)
    drawn = np.stack([rng.multinomial(3, p) for p in law])
    wrong = softmax(np.log(law) / 1.6)
    assert against_law("", drawn, law).p > 0.01
    assert against_law("", drawn, wrong).p < 1e-4
    other = np.stack([rng.multinomial(3, p) for p in law])
    off = np.stack([rng.multinomial(3, p) for p in wrong])
    assert two_sample("", drawn, other).p > 0.01
    assert two_sample("", drawn, off).p < 0.01


def test_a_forbidden_token_rejects_at_once():
    test = against_law("", np.array([[99, 1]]), np.array([[1.0, 0.0]]))
    assert test.p == 0.0
    assert test.settled


@given(st.lists(st.floats(0, 100), min_size=1, max_size=9).map(np.array), st.sampled_from([5.0, 50.0]))
def test_merged_classes_keep_every_count_once_and_are_large_enough(expected, least):
    merge = merge_rare(expected, least)
    np.testing.assert_array_equal(merge.sum(axis=0), 1)
    if len(merge) > 1:
        assert (merge @ expected >= least).all()


def test_nothing_to_test_is_no_test():
    assert against_law("", np.array([[3, 1]]), np.array([[0.7, 0.3]])) is None
    assert two_sample("", np.array([[100, 0]]), np.array([[100, 0]])) is None
    assert two_sample("", np.array([[5, 5]]), np.array([[0, 0]])) is None


def rejection_rates(expected, alpha, reports=4000):
    """Share of true laws rejected at `alpha`: by the chi-squared tail, and by the simulated p-value."""
    rng = np.random.default_rng(0)
    law = np.array([expected / 1000] * 3 + [1 - 3 * expected / 1000])
    counts = rng.multinomial(1000, law, size=reports * 100)
    statistic = ((counts - 1000 * law) ** 2 / (1000 * law)).sum(axis=1)
    asymptotic = chi2.sf(statistic, 3)
    # A simulated p-value is a rank among draws of the law, so its level is a quantile of the statistic.
    test = against_law("", counts[0][None], law[None])
    fresh = np.random.default_rng(1)
    threshold = np.quantile(statistic, 1 - alpha)
    at_threshold = against_law("", counts[np.abs(statistic - threshold).argmin()][None], law[None]).redraw(fresh)
    assert test is not None
    return float((asymptotic < alpha).mean()), at_threshold


def test_the_chi_squared_tail_is_too_light_at_five_and_simulation_repairs_it():
    asymptotic, simulated = rejection_rates(expected=5, alpha=2e-4)
    assert asymptotic > 2 * 2e-4  # what E4 must not use
    assert simulated == pytest.approx(2e-4, rel=0.5)


def test_the_chi_squared_tail_is_right_at_fifty():
    asymptotic, _ = rejection_rates(expected=50, alpha=2e-3)
    assert asymptotic == pytest.approx(2e-3, rel=0.25)


def test_settling_draws_again_only_where_a_rejection_hangs_on_it():
    calls = []

    def redraw(rng, name, p):
        calls.append(name)
        return p

    def doubtful(name, p, again):
        return Test(name, 1, 1.0, 1, p, redraw=lambda rng: redraw(rng, name, again))

    tests = [doubtful("light tail", 1e-4, 0.2), doubtful("clear", 1e-12, 1.0), doubtful("far", 0.5, 0.0)]
    settled = settle(tests, 0.05, np.random.default_rng(0))
    assert calls == ["light tail"]
    assert [t.p for t in settled] == [0.2, 1e-12, 0.5]


def test_a_simulated_p_value_is_never_zero():
    test = two_sample("", np.array([[1000, 0]]), np.array([[0, 1000]]))
    assert test.redraw(np.random.default_rng(0)) == pytest.approx(1 / (DRAWS + 1))
