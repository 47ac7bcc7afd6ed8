"""One measured cell: the round time of a batch size and width, over several visits."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median, quantiles

NOISY = 0.05  # a middle half wider than this is measured again, and refused if it stays so


@dataclass
class Cell:
    batch: int
    width: int
    visits: list[float] = field(default_factory=list)  # mean milliseconds per round of each visit
    accepted: list[float] = field(default_factory=list)  # mean accepted length of each visit, bonus included

    @property
    def ms(self) -> float:
        return median(self.visits)

    @property
    def spread(self) -> float:
        """Range over median: what a reader should know."""
        return (max(self.visits) - min(self.visits)) / self.ms

    @property
    def noisy(self) -> bool:
        """Whether the middle half of the visits is too wide to tell widths apart by."""
        if len(self.visits) < 2:
            return True
        low, _, high = quantiles(self.visits, n=4, method="inclusive")
        return (high - low) / self.ms > NOISY


Cells = dict[tuple[int, int], Cell]


def noisy_cells(cells: Cells) -> list[Cell]:
    return [cell for cell in cells.values() if cell.noisy]
