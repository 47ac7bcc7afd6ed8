"""How long rounds take, by batch size and width, as the scheduler's loop sees it: what the tuner measures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

SETTLED = 3  # rounds of one kind after which an interval is one of theirs: under overlap the host runs a round ahead


@dataclass
class Cell:
    rounds: int = 0  # every round of this batch size and width
    timed: int = 0  # intervals among them that were one whole round
    seconds: float = 0.0  # their sum
    finished: int = 0  # rounds whose outcome is known
    tokens: int = 0  # what those emitted


class RoundClock:
    """Intervals between the starts of consecutive rounds of the same batch size and width."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.cells: dict[tuple[int, int], Cell] = {}
        self._now, self._last, self._kind, self._streak = now, 0.0, (0, 0), 0

    def start(self, batch: int, width: int) -> None:
        """A round starts."""
        now, kind = self._now(), (batch, width)
        cell = self.cells.setdefault(kind, Cell())
        cell.rounds += 1
        self._streak = self._streak + 1 if kind == self._kind else 1
        if self._streak > SETTLED:
            cell.timed += 1
            cell.seconds += now - self._last
        self._last, self._kind = now, kind

    def finish(self, batch: int, width: int, tokens: int) -> None:
        """A round's outcome is known, perhaps after later rounds have started."""
        cell = self.cells.setdefault((batch, width), Cell())
        cell.finished += 1
        cell.tokens += tokens

    def interrupt(self) -> None:
        """Something else ran between two rounds: a prefill, a question to the scheduler."""
        self._kind, self._streak = (0, 0), 0

    def reset(self) -> None:
        self.cells.clear()
        self.interrupt()

    def report(self) -> list[dict[str, float]]:
        return [
            {"batch": batch, "width": width, **vars(cell)} for (batch, width), cell in sorted(self.cells.items())
        ]  # fmt: skip
