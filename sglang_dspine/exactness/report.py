"""One form for every level's report: a verdict, some sentences, some tables; as JSON and for the eye."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

PASSED, FAILED, UNUSABLE = 0, 1, 2  # exit statuses: held, did not hold, could not be judged


@dataclass(frozen=True)
class Table:
    """Rows of one kind; numbers stay numbers until they are shown."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Report:
    """What a level found."""

    level: str  # "E2"
    subject: str  # what was judged, e.g. the server's address and model
    passed: bool
    lines: tuple[str, ...]  # the findings, one sentence each, the verdict's reason first
    tables: tuple[Table, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)  # numbers another program wants

    @property
    def status(self) -> int:
        """Exit status of a command that ends with this report."""
        return PASSED if self.passed else FAILED

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values; infinities and NaN as strings, because JSON has none."""
        tables = [
            {"title": t.title, "columns": list(t.columns), "rows": [list(r) for r in t.rows]} for t in self.tables
        ]
        return _plain(
            {
                "level": self.level,
                "subject": self.subject,
                "passed": self.passed,
                "findings": list(self.lines),
                "facts": self.facts,
                "tables": tables,
            }
        )

    def write(self, path: Path) -> None:
        """Write the JSON form."""
        path.write_text(json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")

    def show(self, console: Console) -> None:
        """Print the readable form."""
        verdict = "[green]pass[/green]" if self.passed else "[red]FAIL[/red]"
        console.print(f"[bold]{self.level}[/bold] {verdict}  ", end="")
        console.print(self.subject, markup=False, highlight=False)
        for line in self.lines:
            console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
        for table in self.tables:
            shown = RichTable(title=table.title, title_justify="left")
            for column in table.columns:
                shown.add_column(column)
            for row in table.rows:
                shown.add_row(*map(_shown, row))
            console.print(shown)


def _plain(value: Any) -> Any:
    """JSON values: numpy scalars unpacked, non-finite floats as strings."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
