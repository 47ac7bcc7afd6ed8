"""What the tuner needs of the thing it measures."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Reading:
    """One visit to a cell."""

    ms: float  # mean milliseconds per round
    rounds: int  # rounds behind the mean
    accepted: float  # mean accepted length, bonus included


class Load(Protocol):
    """A constant number of running requests."""

    def read(self, width: int, rounds: int) -> Reading:
        """Run `rounds` rounds of every request at this width. Raises TuningError when another width was used."""


class Bench(Protocol):
    """A server, or a known cost function in its place."""

    def load(self, batch: int) -> AbstractContextManager[Load]:
        """Keep `batch` requests decoding for the duration."""

    def widths(self) -> tuple[int, ...]:
        """Widths that it is prepared for."""

    def provenance(self) -> dict[str, Any]:
        """What was measured: GPU, driver, versions, models."""
