"""Ratio of two arms' means, both measured on the same sequences, with a bootstrap interval over sequences.

A mean is a sum of counts over a sum of counts (tokens over rounds), never a mean of rates. Sequences are what is drawn
again: blocks of one text are alike, so an interval over blocks would be far too narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, t

from ..errors import DSpineError

DRAWS = 10_000


@dataclass(frozen=True)
class Ratio:
    """An arm over its baseline; interval and p are NaN where repetitions never differ and so tell nothing of chance."""

    value: float
    low: float
    high: float
    count: int  # sequences or repetitions behind it
    p: float  # two-sided, of "equal"

    @property
    def differs(self) -> bool:
        """Whether the interval leaves 1 out."""
        return self.low > 1 or self.high < 1

    def __str__(self) -> str:
        interval = "" if math.isnan(self.p) else f" [{self.low:.3f}, {self.high:.3f}]"
        return f"x{self.value:.3f}{interval}"


@dataclass(frozen=True)
class Counts:
    """Of one arm, per sequence: `total` is counted in units of `of` (tokens of rounds)."""

    total: np.ndarray  # [sequences]
    of: np.ndarray  # [sequences]

    @property
    def mean(self) -> float:
        of = self.of.sum()
        return float(self.total.sum() / of) if of else float("nan")


def paired_ratio(arm: Counts, base: Counts, *, level: float = 0.95, draws: int = DRAWS, seed: int = 0) -> Ratio:
    """arm.mean / base.mean and its interval; place i of both is the same sequence.

    The percentiles are widened for few sequences, as Hesterberg (2015, "What Teachers Should Know About the
    Bootstrap", section 4.3) does for a mean: the plain percentile interval of ten sequences covers 90 %, not 95 %.

    Raises:
        DSpineError: fewer than two sequences, or arms of different sequences.
    """
    columns = [np.asarray(x, np.float64) for x in (arm.total, arm.of, base.total, base.of)]
    if len({len(x) for x in columns}) != 1:
        raise DSpineError(f"paired ratio: the arms have {[len(x) for x in columns]} sequences; expected the same ones")
    n = len(columns[0])
    if n < 2:
        raise DSpineError(f"paired ratio: {n} sequences; an interval over sequences needs at least 2")
    weights = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=draws)  # [draws, n]
    a, a_of, b, b_of = (weights @ x for x in columns)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = (a / a_of) / (b / b_of)
    tail = norm.cdf(np.sqrt(n / (n - 1)) * t.ppf((1 - level) / 2, n - 1))
    low, high = np.nanquantile(drawn, [tail, 1 - tail])
    value = arm.mean / base.mean
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(n / (n - 1)) * np.nanstd(np.log(drawn))
    p = 2 * t.sf(abs(np.log(value)) / error, n - 1) if error > 0 else float(value == 1)
    return Ratio(value, float(low), float(high), n, float(p))
