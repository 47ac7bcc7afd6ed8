"""The tests E4 is made of: one chi-squared score statistic, and Holm's correction over all of them.

With expected counts of 5 the chi-squared tail is too light: at p = 2e-4, where Holm decides over some hundred tests,
a true law is rejected up to five times too often (measured: `tests/exactness/test_statistics.py`). So pooled tests
keep classes of at least 50, and a single stratum, whose classes may be as small as 5, has its p-value drawn again by
simulation wherever a rejection hangs on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.stats import chi2

MIN_EXPECTED = 5.0  # of a class in one stratum
MIN_EXPECTED_POOLED = 50.0
MIN_EXPECTED_ADDED = 25.0  # of a class in one of many strata whose statistics are added up
DRAWS = 100_000  # of a simulated p-value: the smallest it can be is 1e-5
BEYOND_DOUBT = 1e-9  # a chi-squared p-value below this needs no simulation


@dataclass(frozen=True)
class Test:
    """One test of a report."""

    name: str
    n: int  # tokens tested
    statistic: float
    df: int
    p: float
    redraw: Callable[[np.random.Generator], float] | None = field(default=None, repr=False, compare=False)

    __test__ = False  # a noun of this package, not a test class for pytest to collect

    @property
    def settled(self) -> bool:
        """Whether the p-value may be reported as a rejection's."""
        return self.redraw is None or self.p < BEYOND_DOUBT


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's step-down corrected p-values [m], in the order given (Holm 1979)."""
    p = np.asarray(p, np.float64)
    ranked = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[ranked] * np.arange(p.size, 0, -1))
    corrected = np.empty_like(p)
    corrected[ranked] = np.minimum(stepped, 1.0)
    return corrected


def settle(tests: list[Test], alpha: float, rng: np.random.Generator) -> list[Test]:
    """Replace the p-values of unsettled tests that Holm would reject, until no rejection hangs on one."""
    tests = list(tests)
    while True:
        corrected = holm(np.array([t.p for t in tests]))
        doubtful = [i for i, t in enumerate(tests) if corrected[i] < alpha and not t.settled]
        if not doubtful:
            return tests
        for i in doubtful:
            redraw = tests[i].redraw
            assert redraw is not None
            tests[i] = replace(tests[i], p=redraw(rng), redraw=None)


def against_law(name: str, counts: np.ndarray, law: np.ndarray, least: float | None = None) -> Test | None:
    """Observed counts [S, C] of S strata against the law [S, C] of each; None when nothing can be tested.

    least: classes expected fewer times than this are one class; by default what the docstring above says.

    D = sum_s (O_s - n_s p_s) has covariance sum_s n_s (diag(p_s) - p_s p_s^T) under the law; D' cov^+ D is
    chi-squared. With one stratum this is Pearson's statistic. Tokens the law forbids reject at once.
    """
    n = counts.sum(axis=1)
    if np.any(counts[law <= 0] > 0):
        return Test(name, int(n.sum()), float("inf"), 0, 0.0)
    expected = n @ law
    cov = np.diag(expected) - (law * n[:, None]).T @ law
    form = quadratic_form(cov, expected, least or _least(len(n)))
    if form is None:
        return None
    score, df = form
    statistic = float(score(counts.sum(axis=0) - expected))

    def redraw(rng: np.random.Generator) -> float:
        return exceeded(score(rng.multinomial(int(n[0]), law[0] / law[0].sum(), size=DRAWS) - expected), statistic)

    single = redraw if len(n) == 1 else None
    return Test(name, int(n.sum()), statistic, df, float(chi2.sf(statistic, df)), single)


def two_sample(name: str, a: np.ndarray, b: np.ndarray, least: float | None = None) -> Test | None:
    """Counts [S, C] of two arms in S strata; given a stratum's sum, each arm's share is hypergeometric.

    The stratified form of the 2 x C chi-squared (generalised Cochran-Mantel-Haenszel): strata may be small.
    """
    na, nb = a.sum(axis=1), b.sum(axis=1)
    both = (na > 0) & (nb > 0)
    a, b, na, nb = a[both], b[both], na[both], nb[both]
    total, m = a + b, na + nb
    expected = (na / m) @ total
    weight = na * nb / (m * m * np.maximum(m - 1.0, 1.0))
    cov = np.diag((weight * m) @ total) - (total * weight[:, None]).T @ total
    rarer = np.minimum(expected, (nb / m) @ total)
    form = quadratic_form(cov, rarer, least or _least(len(m)))
    if form is None:
        return None
    score, df = form
    statistic = float(score(a.sum(axis=0) - expected))

    def redraw(rng: np.random.Generator) -> float:
        shares = rng.multivariate_hypergeometric(total[0], int(na[0]), size=DRAWS, method="marginals")
        return exceeded(score(shares - expected), statistic)

    single = redraw if len(m) == 1 else None
    return Test(name, int(na.sum()), statistic, df, float(chi2.sf(statistic, df)), single)


def added(name: str, tests: list[Test]) -> Test | None:
    """Chi-squared statistics of independent strata added up: weak deviations of differing directions in many."""
    if len(tests) < 2:
        return None
    statistic, df, n = (sum(getattr(t, field) for t in tests) for field in ("statistic", "df", "n"))
    p = 0.0 if np.isinf(statistic) else float(chi2.sf(statistic, df))
    return Test(name, n, statistic, df, p)


def quadratic_form(
    cov: np.ndarray, expected: np.ndarray, least: float
) -> tuple[Callable[[np.ndarray], np.ndarray], int] | None:
    """D' cov^+ D as a function of differences [..., C], and its degrees of freedom.

    Classes expected fewer than `least` times are one class; None when fewer than two classes remain.
    """
    merge = merge_rare(expected, least)[:-1]  # the classes' differences add up to zero: the last says nothing new
    if len(merge) == 0:
        return None
    merged = merge @ cov @ merge.T
    df = int(np.linalg.matrix_rank(merged, hermitian=True))
    if df == 0:
        return None
    inverse = np.linalg.pinv(merged, hermitian=True)

    def score(difference: np.ndarray) -> np.ndarray:
        d = difference @ merge.T
        return ((d @ inverse) * d).sum(axis=-1)

    return score, df


def _least(strata: int) -> float:
    return MIN_EXPECTED if strata == 1 else MIN_EXPECTED_POOLED


def merge_rare(expected: np.ndarray, least: float = MIN_EXPECTED) -> np.ndarray:
    """Matrix [C', C] of 0 and 1 that adds classes up: frequent ones stay, rare ones become one rest class."""
    rare = expected < least
    if rare.any() and expected[rare].sum() < least and not rare.all():
        rare[np.where(rare, np.inf, expected).argmin()] = True  # the rest alone would be too small as well
    rows = np.eye(expected.size)[~rare]
    return np.vstack([rows, rare.astype(np.float64)]) if rare.any() else rows


def exceeded(simulated: np.ndarray, statistic: float) -> float:
    """Monte Carlo p-value: how often the law itself gives a statistic as large."""
    return float((1 + np.count_nonzero(simulated >= statistic * (1 - 1e-12))) / (1 + simulated.size))
