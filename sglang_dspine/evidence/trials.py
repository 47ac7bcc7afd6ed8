"""Ratio of two arms' speeds from repeated trials: Student's t on log ratios."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import t

from .ratio import Ratio


def interleaved_ratio(arm: Sequence[float], base: Sequence[float], level: float = 0.95) -> Ratio | None:
    """Arms of one run: repetition i of both ran side by side. None with fewer than two repetitions.

    The ratio is one of geometric means.
    """
    logs = np.log(np.asarray(arm, np.float64)) - np.log(np.asarray(base, np.float64))
    if len(logs) < 2:
        return None
    return _interval(logs.mean(), logs.std(ddof=1) / np.sqrt(len(logs)), len(logs) - 1, len(logs), level)


def separate_ratio(arm: Sequence[float], base: Sequence[float], level: float = 0.95) -> Ratio | None:
    """Arms of different runs, whose repetitions are no pairs: Welch's form. None with fewer than two of either."""
    a, b = (np.log(np.asarray(x, np.float64)) for x in (arm, base))
    if min(len(a), len(b)) < 2:
        return None
    va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    if va + vb == 0:
        return _interval(a.mean() - b.mean(), 0.0, 1, min(len(a), len(b)), level)
    df = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    return _interval(a.mean() - b.mean(), np.sqrt(va + vb), df, min(len(a), len(b)), level)


def _interval(mean: float, error: float, df: float, count: int, level: float) -> Ratio:
    if error == 0:  # counts that repeat exactly: greedy text of the same prompts
        ends = float("nan") if mean else 1.0
        return Ratio(float(np.exp(mean)), ends, ends, count, ends)
    half = error * t.ppf((1 + level) / 2, df)
    p = float(2 * t.sf(abs(mean) / error, df))
    return Ratio(float(np.exp(mean)), float(np.exp(mean - half)), float(np.exp(mean + half)), count, p)
