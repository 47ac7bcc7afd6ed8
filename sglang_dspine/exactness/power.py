"""The power of E4: how often would a wrong q be caught, at this size, on these prompts?

Planted faults are what the acceptor is told about q (it was drawn from the right one): a temperature 10 % off in
either direction, or the probabilities of the two likeliest candidates exchanged. Each run simulates the whole
rejection sampler request by request, cuts the tokens into cells and runs the report's own tests and correction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from sglang_dspine.exactness.distribution import (
    USUAL,
    Family,
    Outcome,
    judge_against_control,
    judge_against_law,
)
from sglang_dspine.exactness.filters import softmax
from sglang_dspine.exactness.statistics import Test
from sglang_dspine.exactness.workload import Workload, laws_of, sampled

Plant = Callable[[np.ndarray], np.ndarray]


def colder(q: np.ndarray) -> np.ndarray:
    """q [S, C] as if its temperature were 10 % lower."""
    return _tempered(q, 0.9)


def warmer(q: np.ndarray) -> np.ndarray:
    """q [S, C] as if its temperature were 10 % higher."""
    return _tempered(q, 1.1)


def swapped(q: np.ndarray) -> np.ndarray:
    """q [S, C] with the probabilities of its two likeliest candidates exchanged."""
    first, second = np.argsort(-q, axis=1, kind="stable")[:, :2].T
    rows, wrong = np.arange(len(q)), q.copy()
    wrong[rows, first], wrong[rows, second] = q[rows, second], q[rows, first]
    return wrong


PLANTS: dict[str, Plant] = {
    "temperature of q 10 % low": colder,
    "temperature of q 10 % high": warmer,
    "two candidates of q swapped": swapped,
}


@dataclass(frozen=True)
class Power:
    """Share of simulated reports that reject."""

    caught: int
    runs: int

    @property
    def share(self) -> float:
        return self.caught / self.runs

    @property
    def at_least(self) -> float:
        """Lower end of the one-sided 95 % Clopper-Pearson interval."""
        return 0.0 if self.caught == 0 else float(beta.ppf(0.05, self.caught, self.runs - self.caught + 1))


def power(
    workload: Workload,
    plant: Plant | None,
    *,
    against: str = "law",
    runs: int = 100,
    seed: int = 0,
    family: Family = USUAL,
    report_tests: int = 0,
    alpha: float = 0.05,
) -> Power:
    """Simulate `runs` reports with a planted fault, or with the right q when `plant` is None (false rejections).

    against: "law" or "control". report_tests: tests of the whole report when this setting is one of several; the
    others are taken as passing, which is what the correction charges for them.
    """
    claimed = workload.q if plant is None else plant(workload.q)
    caught = 0
    for run in range(runs):
        rng = np.random.default_rng((seed, run))
        tests = simulate(workload, claimed, against, rng, family)
        tests += [Test("another setting", 0, 0.0, 1, 1.0)] * max(0, report_tests - len(tests))
        caught += rejects(tests, alpha, seed=run)
    return Power(caught, runs)


def rejects(tests: list[Test], alpha: float, seed: int) -> bool:
    """Whether a report of these tests rejects; p-values are drawn again only where the answer hangs on one."""
    if any(t.settled and t.p * len(tests) < alpha for t in tests):
        return True
    return bool(Outcome.of(tests, alpha, seed).rejections)


def simulate(
    workload: Workload, claimed: np.ndarray, against: str, rng: np.random.Generator, family: Family = USUAL
) -> list[Test]:
    """Tests of one simulated setting."""
    samples, states = sampled(workload, workload.q, claimed, rng)
    if against == "law":
        return judge_against_law(samples, lambda cells: laws_of(workload, cells, states), family)
    plain, _ = sampled(workload, workload.target.law, workload.target.law, rng)
    return judge_against_control(samples, plain, family)


def _tempered(q: np.ndarray, factor: float) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return softmax(np.log(q) / factor)
