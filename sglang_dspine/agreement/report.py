"""What a conversion changed, for the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
import shlex
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..checkpoint.convert import Conversion
from ..checkpoint.fp8 import Rounding
from ..checkpoint.layouts import Layout
from .compare import Acceptance, Agreement

NAME = "conversion"  # conversion.json and conversion.md in the new folder


def as_dict(made: Conversion, agreement: Agreement | None) -> dict[str, Any]:
    """Everything, fit for JSON."""
    return {
        "from": str(made.source_layout),
        "to": str(made.layout),
        "rounding": None if made.rounding is None else str(made.rounding),
        "bytes": {part: [made.before.get(part, 0), made.after[part]] for part in made.after},
        "total": [sum(made.before.values()), sum(made.after.values())],
        "agreement": None if agreement is None else agreement.as_dict(),
    }


def texts(made: Conversion, agreement: Agreement | None) -> dict[str, str]:
    """conversion.json and conversion.md, to stand beside the weights: name -> content."""
    return {
        f"{NAME}.json": json.dumps(as_dict(made, agreement), indent=1) + "\n",
        f"{NAME}.md": markdown(made, agreement),
    }


def markdown(made: Conversion, agreement: Agreement | None) -> str:
    lines = [f"# From the {made.source_layout} to the {made.layout} layout", ""]
    lines += ["| part | bytes before | bytes after |", "|---|---|---|"]
    lines += [f"| {part} | {before:,} | {after:,} |" for part, before, after in _sizes(made)]
    lines += ["", "## Agreement", ""]
    lines += [f"- {line}" for line in sentences(made, agreement)]
    return "\n".join(lines) + "\n"


def show(made: Conversion, agreement: Agreement | None, console: Console) -> None:
    console.print(Text(f"{made.destination}: {made.source_layout} -> {made.layout} layout"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("part", "bytes before", "bytes after"):
        table.add_column(title, justify="left" if title == "part" else "right")
    for part, before, after in _sizes(made):
        table.add_row(part, f"{before:,}", f"{after:,}")
    console.print(table)
    for line in sentences(made, agreement):
        console.print(Text(line))
    console.print(Text(f"to serve it: {serving(made)}"))


def serving(made: Conversion) -> str:
    """The flags that name the new folder and serve it as it is stored."""
    flags = f"--speculative-draft-model-path {shlex.quote(str(made.destination))}"
    return flags + " --speculative-draft-model-quantization fp8" * (made.layout is Layout.FP8)


def sentences(made: Conversion, agreement: Agreement | None) -> list[str]:
    """One fact each; what was not measured is said, and how to read what was."""
    rounded = [] if made.rounding is None else [_ROUNDED[made.rounding]]
    if agreement is None:
        return [*rounded, "what changed: not measured"]
    a = agreement
    found = [
        *rounded,
        f"measured on {a.source}: {_count(a.blocks, 'block')} of {_count(a.texts, 'text')}, {a.rows} rows, by the "
        "reference in float32",
        _difference(made),
        *([] if a.acceptance else [_RANDOM]),
        f"candidates of a row that both have: {a.candidates:.2%}; the same best candidate: {a.top1:.2%}",
        f"the same proposal: {a.proposals:.2%} of rows; {a.leading:.2f} leading proposals of a block "
        f"(of {a.rows // a.blocks})",
    ]
    return [*found, *_acceptance(a.acceptance)]


_ROUNDED = {
    Rounding.IEEE: "rounded as every GPU but an H100 or H200 rounds (--rounding ieee)",
    Rounding.HOPPER: "rounded as an H100 or H200 rounds (--rounding hopper)",
}
_RANDOM = (
    "the input is random: candidates lie close there and change places easily, so none of these shares is good or bad; "
    "pass --target or --captures to measure what counts"
)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + "s" * (number != 1)


def _difference(made: Conversion) -> str:
    """FP8 layers round their inputs too, so a way back to BF16 that changes no weight still changes proposals."""
    before, after = (layout is Layout.FP8 for layout in (made.source_layout, made.layout))
    if before and after:
        return "both round weights and inputs of their linear layers to FP8"
    if after:
        return "the new one rounds weights and inputs of its linear layers to FP8, as they are served"
    if before:
        return "the weights kept their values; the old one also rounds the inputs of its linear layers to FP8"
    return "neither rounds to FP8"


def _acceptance(a: Acceptance | None) -> list[str]:
    if a is None:
        return ["accepted length: not measured, there is no text of the target"]
    means = f"accepted length, bonus included: {a.before:.3f} before, {a.after:.3f} after, ratio {a.ratio:.4f}"
    if a.low is None or a.high is None:
        return [f"{means}; one text gives no interval: pass more --prompts to judge it"]
    if a.low <= 1 <= a.high:
        judged = "the interval holds 1: on this text neither is seen to accept more"
    else:
        judged = f"the new one accepts {'more' if a.low > 1 else 'less'} on this text"
    return [f"{means} [{a.low:.4f}, {a.high:.4f}] (95 %, texts resampled); {judged}"]


def _sizes(made: Conversion) -> list[tuple[str, int, int]]:
    rows = [(part, made.before.get(part, 0), size) for part, size in made.after.items()]
    return [*rows, ("total", sum(made.before.values()), sum(made.after.values()))]
