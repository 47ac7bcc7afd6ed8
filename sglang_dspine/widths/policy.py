"""Which width a batch gets. A policy sees only what is the same on every rank, so all ranks choose alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from .table import SpsTable


class Policy(Protocol):
    """One width per round."""

    name: str

    def choose(self, batch: int) -> int:
        """Width of the next round of `batch` requests; 1 is plain decode."""

    def note(self, batch: int, width: int, accepted: Sequence[int]) -> None:
        """A round's outcome: proposals accepted by each request, in the order of the rounds."""

    def widths_of(self, batch: int) -> tuple[int, ...]:
        """Every width it may choose for this batch size."""

    def report(self) -> dict[str, Any]:
        """For metrics: plain JSON."""


class TablePolicy:
    """The table's width, whatever the acceptance; `fixed` is a table of one entry."""

    def __init__(self, table: SpsTable, name: str = "table") -> None:
        self.table, self.name = table, name
        self.chosen: Counter[int] = Counter()

    def choose(self, batch: int) -> int:
        width = self.table.width_of(batch)
        self.chosen[width] += 1
        return width

    def note(self, batch: int, width: int, accepted: Sequence[int]) -> None:
        pass

    def widths_of(self, batch: int) -> tuple[int, ...]:
        return (self.table.width_of(batch),)

    def report(self) -> dict[str, Any]:
        return {"chosen": {str(width): count for width, count in sorted(self.chosen.items())}}
