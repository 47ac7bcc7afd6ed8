"""What a conversion changed, for the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..checkpoint.convert import Conversion
from .compare import Agreement

NAME = "conversion"  # conversion.json and conversion.md in the new folder


def as_dict(made: Conversion, agreement: Agreement | None) -> dict[str, Any]:
    """Everything, fit for JSON."""
    return {
        "from": str(made.source_layout),
        "to": str(made.layout),
        "rounding": str(made.rounding),
        "bytes": {part: [made.before.get(part, 0), made.after[part]] for part in made.after},
        "total": [sum(made.before.values()), sum(made.after.values())],
        "agreement": None if agreement is None else agreement.as_dict(),
    }


def write(folder: Path, made: Conversion, agreement: Agreement | None) -> None:
    """conversion.json and conversion.md beside the weights."""
    (folder / f"{NAME}.json").write_text(json.dumps(as_dict(made, agreement), indent=1) + "\n", encoding="utf-8")
    (folder / f"{NAME}.md").write_text(markdown(made, agreement), encoding="utf-8")


def markdown(made: Conversion, agreement: Agreement | None) -> str:
    lines = [f"# From the {made.source_layout} to the {made.layout} layout", ""]
    lines += ["| part | bytes before | bytes after |", "|---|---|---|"]
    lines += [f"| {part} | {before:,} | {after:,} |" for part, before, after in _sizes(made)]
    lines += ["", "## Agreement", ""]
    lines += [f"- {line}" for line in sentences(agreement)]
    return "\n".join(lines) + "\n"


def show(made: Conversion, agreement: Agreement | None, console: Console) -> None:
    console.print(Text(f"{made.destination}: {made.source_layout} -> {made.layout} layout"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("part", "bytes before", "bytes after"):
        table.add_column(title, justify="left" if title == "part" else "right")
    for part, before, after in _sizes(made):
        table.add_row(part, f"{before:,}", f"{after:,}")
    console.print(table)
    for line in sentences(agreement):
        console.print(Text(line))


def sentences(agreement: Agreement | None) -> list[str]:
    """One fact each; what was not measured is said."""
    if agreement is None:
        return ["not measured"]
    a = agreement
    found = [
        f"measured on {a.source}: {a.blocks} blocks of {a.texts} texts, {a.rows} rows, by the reference in float32, "
        "inputs of FP8 layers in FP8",
        f"candidates of a row that both have: {a.candidates:.2%}; the same best candidate: {a.top1:.2%}",
        f"the same proposal: {a.proposals:.2%} of rows; {a.leading:.2f} leading proposals of a block",
    ]
    if a.acceptance is None:
        found.append(
            "accepted length: not measured, there is no text of the target; pass --target or --captures to measure it"
        )
    else:
        c = a.acceptance
        found.append(
            f"accepted length, bonus included: {c.before:.3f} before, {c.after:.3f} after, ratio {c.ratio:.4f} "
            f"[{c.low:.4f}, {c.high:.4f}] (95 %, texts resampled)"
        )
    return found


def _sizes(made: Conversion) -> list[tuple[str, int, int]]:
    rows = [(part, made.before.get(part, 0), size) for part, size in made.after.items()]
    return [*rows, ("total", sum(made.before.values()), sum(made.after.values()))]
