"""Measured seconds of one round, T(b, w), at the batch sizes and widths that were measured, and in between."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StepCost:
    """`ms[i][j]` is the round of `batches[i]` requests at `widths[j]`; both axes ascend, all times are positive."""

    batches: tuple[int, ...]
    widths: tuple[int, ...]
    ms: tuple[tuple[float, ...], ...]

    def __call__(self, batch: int, width: int) -> float:
        """Milliseconds. Between two measured batch sizes on the straight line; beyond the last one in proportion to the
        slope there, before the first one as at the first. The width must be a measured one."""
        column = [row[self.widths.index(width)] for row in self.ms]
        return interpolate(self.batches, column, batch)


def interpolate(xs: Sequence[int], ys: Sequence[float], x: float) -> float:
    """Piecewise linear; constant before the first point, the last slope (if it rises) after the last one."""
    if x <= xs[0] or len(xs) == 1:
        return ys[0]
    right = min(bisect_left(xs, x), len(xs) - 1)
    left = right - 1
    slope = (ys[right] - ys[left]) / (xs[right] - xs[left])
    if x > xs[-1]:
        slope = max(slope, 0.0)
        return ys[-1] + slope * (x - xs[-1])
    return ys[left] + slope * (x - xs[left])
