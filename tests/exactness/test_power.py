"""E4 at its own size: a planted wrong q is rejected, the true law is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sglang_dspine.exactness.choose import choose, evidence
from sglang_dspine.exactness.laws import Laws
from sglang_dspine.exactness.power import PLANTS, Power, power
from sglang_dspine.exactness.samples import cells_of
from sglang_dspine.exactness.workload import acceptance_of, laws_of, observed, sampled, synthetic

FOUR_SETTINGS = 4 * 30  # tests of a report; the correction charges for all of them


@pytest.mark.parametrize("name", PLANTS)
def test_a_wrong_q_is_caught_at_9000_requests(name):
    found = power(synthetic(), PLANTS[name], runs=12, report_tests=FOUR_SETTINGS)
    assert found.caught == found.runs


def test_a_wrong_q_is_caught_against_a_control():
    found = power(synthetic(), PLANTS["temperature of q 10 % high"], against="control", runs=6)
    assert found.caught == found.runs


@pytest.mark.full
@pytest.mark.parametrize("against", ["law", "control"])
@pytest.mark.parametrize("name", PLANTS)
def test_power_is_at_least_95_percent(name, against):
    found = power(synthetic(), PLANTS[name], against=against, runs=100, report_tests=FOUR_SETTINGS)
    assert found.at_least >= 0.95


@pytest.mark.parametrize("against", ["law", "control"])
def test_the_true_law_is_seldom_rejected(against):
    """30 reports of level 5 %: seven or more rejections have a chance of 0.3 %."""
    assert power(synthetic(requests=2000), None, against=against, runs=30).caught <= 6


@pytest.mark.full
@pytest.mark.parametrize("against", ["law", "control"])
def test_false_rejections_stay_at_five_percent(against):
    """500 reports at full size: more than 40 have a chance of 0.2 % at level 5 %."""
    assert power(synthetic(), None, against=against, runs=500).caught <= 40


def observed_from(workload, rng):
    """The workload as a report would see it: cells and laws of one run."""
    samples, states = sampled(workload, workload.q, workload.q, rng)
    cells = cells_of(samples)
    return cells, laws_of(workload, cells, states), samples


def test_power_on_an_observed_run_has_power_and_keeps_its_level():
    run = observed(*observed_from(synthetic(requests=6000, length=4), np.random.default_rng(0)))
    assert power(run, PLANTS["temperature of q 10 % low"], runs=6).caught == 6
    assert power(run, None, runs=20).caught <= 5


def test_a_modelled_drafter_reaches_the_accepted_length():
    from sglang_dspine.exactness.rejection import speculate

    run = observed(*observed_from(synthetic(requests=6000, length=4), np.random.default_rng(0)), accepted_length=3.0)
    kept = np.minimum(run.target.law, run.q).sum(axis=1)
    states = speculate(run.target, run.q, run.q, requests=3000, length=3, proposals=15, rng=np.random.default_rng(1))[1]
    assert kept[states[states >= 0]].mean() == pytest.approx(acceptance_of(3.0, 15), abs=0.03)


def test_acceptance_gives_back_the_accepted_length():
    a = acceptance_of(3.0, 15)
    assert sum(a**i for i in range(16)) == pytest.approx(3.0, abs=1e-3)


def test_a_few_requests_have_no_power():
    """Power is measured, not asserted: the same fault in 100 requests goes unseen."""
    small = replace(synthetic(), requests=100)
    assert power(small, PLANTS["temperature of q 10 % high"], runs=20, report_tests=FOUR_SETTINGS).caught <= 4


def test_the_lower_bound_of_the_power_is_clopper_pearsons():
    assert Power(59, 59).at_least == pytest.approx(0.05 ** (1 / 59))
    assert Power(0, 10).at_least == 0.0


def test_certain_and_uniform_laws_carry_no_evidence():
    probs = np.array([[0.997, 0.001, 0.001, 0.001], [0.25, 0.25, 0.25, 0.25], [0.6, 0.25, 0.1, 0.05]])
    laws = Laws(np.tile(np.arange(4), (3, 1)), probs, np.zeros(3))
    certain, uniform, skewed = evidence(laws, np.full(3, 9000.0), noise=1e-3)
    assert skewed > 10 * uniform
    assert skewed > 5 * certain


def test_prompts_are_chosen_by_their_evidence():
    workload = synthetic(prompts=3, requests=300, length=2)
    cells, laws, _ = observed_from(workload, np.random.default_rng(0))
    flat = laws.probs.copy()
    flat[cells.prompt == 1] = np.eye(flat.shape[1])[0] * 0.9999 + 0.0001 / flat.shape[1]
    chosen = choose(cells, Laws(laws.ids, flat, laws.rest), 2, requests=9000)
    assert sorted(chosen) == [0, 2]
