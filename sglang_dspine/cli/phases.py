"""How far a long command is: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

EVERY = 10.0  # seconds between lines of a log

Advance = Callable[..., None]  # (amount, now=""): so much of the phase's total is done, `now` at this


class Phases:
    """The phases of one command; a context manager that takes the bar away at its end."""

    def __init__(self, console: Console) -> None:
        self.console = console
        named, now = TextColumn("{task.description}"), TextColumn("{task.fields[now]}", markup=False)
        self.bar = Progress(
            named, BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), now, console=console, transient=True
        )

    @contextmanager
    def shown(self) -> Iterator[Phases]:
        if self.console.is_terminal:
            with self.bar:
                yield self
        else:
            yield self

    def begin(self, name: str, total: float) -> Advance:
        """Begin a phase, and say so."""
        if not self.console.is_terminal:
            return self._lines(name, total)
        task = self.bar.add_task(name, total=total, now="")
        return lambda amount, now="": self.bar.update(task, advance=amount, now=now)

    def _lines(self, name: str, total: float) -> Advance:
        self.console.print(f"{name} ...", markup=False)
        done, said, lines = 0.0, time.monotonic(), 0

        def advance(amount: float, now: str = "") -> None:
            nonlocal done, said, lines
            done += amount
            whole = done >= total * (1 - 1e-9)  # parts of 1.0 add up to a little less
            if time.monotonic() - said >= EVERY or (whole and lines):
                said, lines = time.monotonic(), lines + 1
                self.console.print(f"{name}: {100 if whole else int(100 * done / total)}%", markup=False)

        return advance
