"""Waiting, shown: a line that moves on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.markup import escape

EVERY_S = 10.0


@contextlib.contextmanager
def waiting(console: Console, for_what: str) -> Iterator[Callable[[float, str], None]]:
    """Yields report(seconds, line); `line` is what the server said last."""
    if console.is_terminal:
        with console.status(for_what) as status:
            yield lambda seconds, line: status.update(f"{for_what} {seconds:.0f} s  [dim]{escape(line)}[/dim]")
        return
    due, shown = EVERY_S, ""

    def report(seconds: float, line: str) -> None:
        nonlocal due, shown
        if seconds >= due:
            due = seconds + EVERY_S
            news = f"  {line}" if line != shown else ""  # what was said before is no news
            shown = line
            say(console, f"{for_what} {seconds:.0f} s{news}")

    yield report


def say(console: Console, line: str) -> None:
    """One line as it is: no markup, no wrapping."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)
