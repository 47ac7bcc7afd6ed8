"""Fill the grid of cells: every width there and back again at each batch size, noisy cells once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .bench import Bench, Load
from .cells import Cell, Cells
from .failure import TuningError
from .order import there_and_back
from .store import Store

MORE_VISITS = 4  # that a noisy cell gets beyond the plan


@dataclass(frozen=True)
class Plan:
    batches: tuple[int, ...]
    widths: tuple[int, ...]
    visits: int = 5
    rounds: int = 24  # per visit

    @property
    def total(self) -> int:
        return len(self.batches) * len(self.widths) * self.visits


def measure(bench: Bench, plan: Plan, store: Store, step: Callable[[str], None] = lambda what: None) -> Cells:
    """Measure what the store does not hold yet of the plan, and return the plan's cells.

    `step` is called after every visit, with what it was.

    Raises:
        TuningError: the bench is not prepared for a width, or used another one.
    """
    missing = [width for width in plan.widths if width not in bench.widths()]
    if missing:
        raise TuningError(
            f"the server is not prepared for widths {missing}, only for {list(bench.widths())}; start it with "
            f"DSPINE_WIDTHS={','.join(map(str, plan.widths))}"
        )
    store.plan(plan.batches, plan.widths)
    held = store.cells()
    cells = {(b, w): held.get((b, w)) or Cell(b, w) for b in plan.batches for w in plan.widths}
    for batch in plan.batches:
        mine = [cells[batch, width] for width in plan.widths]
        if all(len(cell.visits) >= plan.visits for cell in mine):
            continue
        with bench.load(batch) as load:
            for width in plan.widths:
                load.read(width, max(4, plan.rounds // 4))  # warm: compiled kernels, caches, clocks
            for width in there_and_back(plan.widths, plan.visits):
                if len(cells[batch, width].visits) < plan.visits:
                    _visit(load, cells[batch, width], plan.rounds, store)
                    step(f"batch {batch}, width {width}")
            _repeat_noisy(load, mine, plan, store, step)
    return cells


def _repeat_noisy(load: Load, cells: Sequence[Cell], plan: Plan, store: Store, step: Callable[[str], None]) -> None:
    """Longer visits, until the middle half agrees: a machine that was busy for a moment is forgiven, one that stays
    restless leaves a cell that `combine` refuses. No visit is dropped."""
    for _ in range(MORE_VISITS):
        noisy = [cell for cell in cells if cell.noisy]
        if not noisy:
            return
        for cell in noisy:
            _visit(load, cell, 2 * plan.rounds, store)
            step(f"batch {cell.batch}, width {cell.width} again: its visits lie {cell.spread:.0%} apart")


def _visit(load: Load, cell: Cell, rounds: int, store: Store) -> None:
    reading = load.read(cell.width, rounds)
    cell.visits.append(reading.ms)
    cell.accepted.append(reading.accepted)
    store.add(cell.batch, cell.width, reading.ms, reading.accepted)
