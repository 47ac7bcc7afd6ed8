"""Rows of named columns, as CSV and as a Markdown table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def markdown(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; None is a dash, a pipe in a cell is escaped."""
    lines = [_line(columns), "|" + "---|" * len(columns)]
    return "\n".join([*lines, *(_line(row) for row in rows)]) + "\n"


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """One line a mapping; columns are the keys in order of appearance, a missing value is empty."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _plain(value) for key, value in row.items()} for row in rows)
    path.write_text(text.getvalue(), encoding="utf-8")


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _line(cells: Sequence[Any]) -> str:
    return "| " + " | ".join("-" if cell is None else str(cell).replace("|", "\\|") for cell in cells) + " |"


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else value
