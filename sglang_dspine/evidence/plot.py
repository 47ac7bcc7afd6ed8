"""Line plots with ranges. matplotlib is an extra: without it reports come without pictures, and say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MISSING = "no plots: matplotlib is not installed (pip install 'sglang-dspine[evidence]')"


@dataclass(frozen=True)
class Line:
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None  # ends of the range at each x
    high: Sequence[float] | None = None


def can_plot() -> bool:
    return find_spec("matplotlib") is not None


def draw(
    path: Path, lines: Mapping[str, Line], *, title: str, x: str, y: str, ticks: Sequence[str] | None = None
) -> None:
    """Write one PNG. ticks: names of the places 0, 1, … on the x axis."""
    from matplotlib.figure import Figure  # not pyplot: no display, no global state

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes: Any = figure.add_subplot()
    for name, line in lines.items():
        shown = axes.plot(line.x, line.y, marker="o", markersize=4, label=name)
        if line.low is not None and line.high is not None:
            axes.fill_between(line.x, line.low, line.high, color=shown[0].get_color(), alpha=0.15)
    axes.set(title=title, xlabel=x, ylabel=y)
    if ticks is not None:
        axes.set_xticks(range(len(ticks)), ticks)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if lines:
        axes.legend()
    figure.savefig(path, dpi=120)
