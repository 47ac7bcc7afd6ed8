"""Heat map of round times, throughput curves with the chosen width, acceptance per position."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..widths.acceptance import expected_length
from ..widths.table import SpsTable
from .combine import Rate


def can_plot() -> bool:
    """matplotlib is an extra: pip install 'sglang-dspine[tune]'."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    return True


def draw(rates: Sequence[Rate], table: SpsTable, folder: Path) -> None:
    """Three PNG files, named as in report.PLOTS."""
    import matplotlib.pyplot as plt

    for name, make in (("step_ms", _heat_map), ("throughput", _throughput), ("acceptance", _acceptance)):
        figure, axes = plt.subplots(figsize=(7, 4.5))
        make(axes, rates, table)
        figure.tight_layout()
        figure.savefig(folder / f"{name}.png", dpi=120)
        plt.close(figure)


def _heat_map(axes: Any, rates: Sequence[Rate], table: SpsTable) -> None:
    batches, widths = sorted({r.batch for r in rates}), sorted({r.width for r in rates})
    ms = {(r.batch, r.width): r.ms for r in rates}
    axes.imshow([[ms[b, w] for w in widths] for b in batches], aspect="auto", cmap="viridis")
    for i, batch in enumerate(batches):
        for j, width in enumerate(widths):
            chosen = table.width_of(batch) == width
            axes.text(
                j, i, f"{ms[batch, width]:.1f}", ha="center", va="center", color="white",
                fontweight="bold" if chosen else "normal",
                bbox={"facecolor": "none", "edgecolor": "red"} if chosen else None,
            )  # fmt: skip
    axes.set_xticks(range(len(widths)), [str(w) for w in widths])
    axes.set_yticks(range(len(batches)), [str(b) for b in batches])
    axes.set(xlabel="verify width", ylabel="users", title="Round time in ms, chosen width framed")


def _throughput(axes: Any, rates: Sequence[Rate], table: SpsTable) -> None:
    for batch in sorted({r.batch for r in rates}):
        mine = sorted((r for r in rates if r.batch == batch), key=lambda r: r.width)
        share = max(r.tokens_per_s for r in mine)
        (line,) = axes.plot([r.width for r in mine], [r.tokens_per_s / share for r in mine], label=f"{batch} users")
        chosen = [r for r in mine if r.width == table.width_of(batch)]
        axes.plot([r.width for r in chosen], [r.tokens_per_s / share for r in chosen], "o", color=line.get_color())
    axes.set(xlabel="verify width", ylabel="tokens per second, of the best width", title="Chosen widths marked")
    axes.legend()


def _acceptance(axes: Any, rates: Sequence[Rate], table: SpsTable) -> None:
    widest = max(r.width for r in rates)
    profile = [table.acceptance[min(i, len(table.acceptance) - 1)] for i in range(max(widest - 1, 1))]
    axes.plot(range(1, len(profile) + 1), profile, "o-", label="accepted, given all before it")
    axes.set(xlabel="position", ylabel="probability", ylim=(0, 1), title="Acceptance")
    other = axes.twinx()
    other.plot(range(1, widest + 1), [expected_length(profile, w) for w in range(1, widest + 1)], "k--")
    other.set_ylabel("expected accepted length at this width (dashed)")
    axes.legend(loc="lower left")
