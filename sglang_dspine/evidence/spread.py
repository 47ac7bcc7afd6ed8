"""Median [min-max] of repeated trials, and the gate that says which of them may be quoted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

GATE = 0.05  # range over median that a quoted cell may have


@dataclass(frozen=True)
class Spread:
    """Repetitions of one cell; none is ever dropped."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Spread | None:
        """None without a single value."""
        known = tuple(float(v) for v in values if v is not None)
        return cls(known) if known else None

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    @property
    def share(self) -> float:
        """Range as a share of the median."""
        return (self.high - self.low) / self.median if self.median else 0.0

    def within(self, gate: float = GATE) -> bool:
        """Whether it may be quoted; one trial has no range and may not."""
        return len(self.values) > 1 and self.share <= gate

    def text(self, digits: int = 1) -> str:
        """`38.3 (1)` or `164.3 [153.4-175.8] (4)`: the seed's own form."""
        n = len(self.values)
        if n == 1:
            return f"{self.median:.{digits}f} (1)"
        return f"{self.median:.{digits}f} [{self.low:.{digits}f}-{self.high:.{digits}f}] ({n})"
