"""A bench with known costs: the tuner must find their optimum, and must notice when width costs nothing (report 31)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..widths.acceptance import expected_length
from .bench import Reading

PROFILE = (0.80, 0.80, 0.82, 0.84, 0.85, 0.86, 0.87)  # positions 1, 2, ...; conditional, as reported for DSpine


def known_cost(batch: int, width: int) -> float:
    """Milliseconds: weights are read once, rows cost more once the GPU has enough of them, drafting costs a little."""
    rows = batch * width
    return 20.0 + 0.05 * max(rows - 24, 0) + (3.0 + 0.012 * rows if width > 1 else 0.0)


def flat_cost(batch: int, width: int) -> float:
    """A server that does not do what it is told: every width takes the same time."""
    return 20.0 + 0.3 * batch


class SimulatedBench:
    """Draws round times around `cost`, with noise as between visits on a quiet machine."""

    def __init__(
        self, widths: Sequence[int], cost: Callable[[int, int], float] = known_cost, noise: float = 0.004, seed: int = 1
    ) -> None:
        self._widths, self._cost, self._noise = tuple(sorted(widths)), cost, noise
        self._draw = random.Random(seed)

    def widths(self) -> tuple[int, ...]:
        return self._widths

    @contextmanager
    def load(self, batch: int) -> Iterator[SimulatedLoad]:
        yield SimulatedLoad(self, batch)

    def read(self, batch: int, width: int, rounds: int) -> Reading:
        ms = self._cost(batch, width) * (1 + self._draw.gauss(0, self._noise))
        return Reading(ms, rounds, expected_length(PROFILE, width))

    def provenance(self) -> dict[str, Any]:
        return {"gpu": "simulated", "status": "SIMULATED: a test of the tuner, no measurement"}


class SimulatedLoad:
    def __init__(self, bench: SimulatedBench, batch: int) -> None:
        self._bench, self._batch = bench, batch

    def read(self, width: int, rounds: int) -> Reading:
        return self._bench.read(self._batch, width, rounds)
