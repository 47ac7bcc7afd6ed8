"""What a tuner run says: a CSV of every cell, and a page with the table, its reasons and its doubts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..widths.acceptance import expected_length
from ..widths.table import SpsTable
from .combine import Rate

PLOTS = ("step_ms.png", "throughput.png", "acceptance.png")


def csv_rows(rates: Sequence[Rate], table: SpsTable) -> list[dict[str, Any]]:
    """Columns users, width, step_ms, step_ms_min, step_ms_max, tok_s, chosen, refused."""
    return [
        {
            "users": rate.batch, "width": rate.width,
            "step_ms": round(rate.ms, 3), "step_ms_min": round(rate.ms_min, 3),
            "step_ms_max": round(rate.ms_max, 3), "tok_s": round(rate.tokens_per_s, 1),
            "chosen": int(table.width_of(rate.batch) == rate.width), "refused": int(rate.refused),
        }
        for rate in rates
    ]  # fmt: skip


def markdown(rates: Sequence[Rate], table: SpsTable, plots: bool) -> str:
    widths = sorted({rate.width for rate in rates})
    lines = ["# Verify widths", "", *_provenance(table), "", "## Table", "", _widths(table), ""]
    lines += ["## Round time, ms: median [min-max]", "", *_grid(rates, widths, table, _time), ""]
    lines += ["## Expected tokens per second, all users together", "", *_grid(rates, widths, table, _rate), ""]
    lines += ["The chosen width is bold. (!) marks a cell that stayed too noisy to be chosen.", ""]
    lines += ["## Acceptance per position", "", *_acceptance(table, widths), ""]
    if plots:
        lines += [f"![{name}]({name})" for name in PLOTS]
    return "\n".join(lines).rstrip() + "\n"


def _provenance(table: SpsTable) -> list[str]:
    return [f"- {key}: {value}" for key, value in table.provenance.items()]


def _widths(table: SpsTable) -> str:
    last = len(table.widths)
    parts = [f"{batch}: {width}" for batch, width in enumerate(table.widths, 1)]
    return "Batch and width: " + ", ".join(parts) + f"; batch {last} stands for every larger one."


def _grid(rates: Sequence[Rate], widths: Sequence[int], table: SpsTable, show: Any) -> list[str]:
    by_cell = {(rate.batch, rate.width): rate for rate in rates}
    lines = ["| users | " + " | ".join(f"width {w}" for w in widths) + " |", "|---|" + "---|" * len(widths)]
    for batch in sorted({rate.batch for rate in rates}):
        cells = []
        for width in widths:
            rate = by_cell[batch, width]
            text = show(rate) + (" (!)" if rate.refused else "")
            cells.append(f"**{text}**" if table.width_of(batch) == width else text)
        lines.append(f"| {batch} | " + " | ".join(cells) + " |")
    return lines


def _time(rate: Rate) -> str:
    return f"{rate.ms:.2f} [{rate.ms_min:.2f}-{rate.ms_max:.2f}]"


def _rate(rate: Rate) -> str:
    return f"{rate.tokens_per_s:.1f}"


def _acceptance(table: SpsTable, widths: Sequence[int]) -> list[str]:
    positions = ", ".join(f"{p:.3f}" for p in table.acceptance)
    lengths = ", ".join(f"{expected_length(table.acceptance, w):.2f} at {w}" for w in widths)
    return [f"Conditional: {positions}.", "", f"Expected accepted length: {lengths}."]
