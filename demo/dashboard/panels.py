"""The panels of a Grafana dashboard, drawn where the dashboard has them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .prometheus import Series

COLUMNS, INCH = 24, 0.75  # of Grafana's grid; of one of its columns
UNITS = {"percentunit": "share", "ops": "per second", "s": "seconds", "short": ""}


def legend(form: str, labels: Mapping[str, str]) -> str:
    """Grafana's legendFormat: {{label}} is replaced."""
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda name: labels.get(name[1], ""), form)


def draw(panels: Sequence[dict[str, Any]], found: Sequence[Sequence[tuple[str, Series]]], out: Path, note: str) -> None:
    """One axes a panel, at its gridPos; `found` holds each panel's curves with their names."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    figure = pyplot.figure(figsize=(COLUMNS * INCH, rows * INCH * 0.6), facecolor="white")
    for panel, curves in zip(panels, found, strict=True):
        place = panel["gridPos"]
        axes = figure.add_axes(
            (
                place["x"] / COLUMNS + 0.03,
                1 - (place["y"] + place["h"]) / rows + 0.045,
                place["w"] / COLUMNS - 0.045,
                place["h"] / rows - 0.07,
            )
        )
        _panel(axes, panel, curves)
    figure.text(0.03, 0.012, note, fontsize=9, color="#555555")
    figure.savefig(out, dpi=75)
    pyplot.close(figure)


def _panel(axes: Any, panel: dict[str, Any], curves: Sequence[tuple[str, Series]]) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    axes.set_title(panel["title"], fontsize=11, loc="left")
    axes.set_ylabel(UNITS[defaults["unit"]], fontsize=8)
    if not curves:  # as Grafana says it: the metric has no sample, or nothing divides
        axes.text(0.5, 0.5, "no data", ha="center", va="center", transform=axes.transAxes, color="#888888")
    elif defaults["custom"]["stacking"]["mode"] == "normal":
        seconds = sorted({at for _, series in curves for at in series.seconds})
        held = [dict(zip(series.seconds, series.values, strict=True)) for _, series in curves]
        heights = [[one.get(at, 0.0) for at in seconds] for one in held]
        axes.stackplot(seconds, heights, labels=[name for name, _ in curves], alpha=0.7)
    else:
        for name, series in curves:
            axes.plot(series.seconds, series.values, label=name, linewidth=1.5)
    if curves:
        axes.legend(fontsize=8, loc="best", framealpha=0.6)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.tick_params(labelsize=8)
