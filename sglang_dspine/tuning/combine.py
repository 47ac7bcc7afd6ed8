"""From cells and an acceptance profile to a table. No GPU: the same cells serve any profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..widths.acceptance import expected_length
from ..widths.step_cost import StepCost
from ..widths.table import SpsTable
from .cells import Cells
from .failure import TuningError

MARGIN = 0.01  # a width must be better by this to take over from the one of the batch before: fewer graphs, no jitter
TELLS_WIDTHS_APART = (
    0.03  # the widest round must cost this much more than the narrowest that drafts, at some batch size
)


@dataclass(frozen=True)
class Rate:
    """One cell with what it is worth."""

    batch: int
    width: int
    ms: float
    ms_min: float
    ms_max: float
    tokens_per_s: float  # all requests together
    refused: bool  # too noisy to be chosen


def combine(cells: Cells, acceptance: Sequence[float], provenance: Mapping[str, Any]) -> SpsTable:
    """The width of most expected tokens per second for every batch size, between measured ones by interpolated times.

    A noisy cell is not chosen by, and its width is left out of the step times that the adaptive policy would choose by.

    Raises:
        TuningError: an incomplete grid, times that do not depend on width, or no cell fit to be chosen.
    """
    batches, widths = grid(cells)
    require_width_matters(cells)
    cost = StepCost(batches, widths, tuple(tuple(cells[b, w].ms for w in widths) for b in batches))
    chosen: list[int] = []
    for batch in range(1, batches[-1] + 1):
        near = min(b for b in batches if b >= batch)
        between = {near, max((b for b in batches if b <= batch), default=near)}  # whose times are interpolated
        allowed = [w for w in widths if not any(cells[b, w].noisy for b in between)]
        if not allowed:
            raise TuningError(
                f"batch {near}: every width's visits lie more than 5 % apart; find out what else uses the machine, "
                "then measure again into another folder"
            )
        rate = {w: expected_length(acceptance, w) / cost(batch, w) for w in allowed}
        best = max(rate, key=lambda w: rate[w])
        if chosen and chosen[-1] in rate and rate[best] <= (1 + MARGIN) * rate[chosen[-1]]:
            best = chosen[-1]
        chosen.append(best)
    while len(chosen) > 1 and chosen[-1] == chosen[-2]:
        chosen.pop()  # the last entry is open-ended
    quiet = tuple(w for w in widths if not any(cells[b, w].noisy for b in batches))
    kept = StepCost(batches, quiet, tuple(tuple(cells[b, w].ms for w in quiet) for b in batches)) if quiet else None
    return SpsTable(tuple(chosen), dict(provenance), kept, tuple(acceptance), "the tuner")


def rates(cells: Cells, acceptance: Sequence[float]) -> list[Rate]:
    """Every measured cell, for CSV, report and plots."""
    return [
        Rate(
            cell.batch, cell.width, cell.ms, min(cell.visits), max(cell.visits),
            1e3 * cell.batch * expected_length(acceptance, cell.width) / cell.ms, cell.noisy,
        )
        for _, cell in sorted(cells.items())
    ]  # fmt: skip


def grid(cells: Cells) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Batches and widths, ascending. Raises TuningError naming the first hole."""
    batches, widths = sorted({b for b, _ in cells}), sorted({w for _, w in cells})
    for batch in batches:
        for width in widths:
            if (batch, width) not in cells or not cells[batch, width].visits:
                raise TuningError(
                    f"batch {batch}, width {width} was not measured; run the tuner again, it goes on there"
                )
    if not batches:
        raise TuningError("nothing was measured")
    return tuple(batches), tuple(widths)


def require_width_matters(cells: Cells) -> None:
    """A server that verifies the same width whatever it is told shows the same time for all (report 31)."""
    batches, widths = grid(cells)
    widths = tuple(width for width in widths if width > 1)  # plain decode is cheaper whatever the others really do
    if len(widths) < 2:
        return
    growth = {b: cells[b, widths[-1]].ms / cells[b, widths[0]].ms - 1 for b in batches}
    best = max(growth, key=lambda b: growth[b])
    if growth[best] < TELLS_WIDTHS_APART:
        raise TuningError(
            f"round times do not depend on the width: width {widths[-1]} costs at most {growth[best]:+.1%} more than "
            f"width {widths[0]} (batch {best}); expected at least {TELLS_WIDTHS_APART:.0%} at the largest batch. Was "
            "the forced width really used, and is the largest batch large enough?"
        )
