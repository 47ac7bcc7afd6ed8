"""The SPS table (steps per second): a verify width for every batch size, and what it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .step_cost import StepCost


@dataclass(frozen=True)
class SpsTable:
    """Entry i of `widths` is for batch i + 1; the last one also for every larger batch. 1 is plain decode."""

    widths: tuple[int, ...]
    provenance: Mapping[str, Any] = field(default_factory=dict)  # "gpu" and "source" always
    cost: StepCost | None = None  # measured step times, which the adaptive policy needs
    acceptance: tuple[float, ...] = ()  # P(proposal i accepted | all before it were), from position 1
    where: str = "table"  # for messages

    def width_of(self, batch: int) -> int:
        return self.widths[min(batch, len(self.widths)) - 1]

    @property
    def widest(self) -> int:
        return max(self.widths)

    @property
    def gpu(self) -> str:
        return str(self.provenance.get("gpu", ""))


def constant(width: int, where: str) -> SpsTable:
    """One width for every batch."""
    return SpsTable((width,), where=where)
