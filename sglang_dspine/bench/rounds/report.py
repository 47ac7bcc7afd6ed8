"""The figures: a CSV that later runs add to, Markdown, and a plot where matplotlib is installed."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from ...kernels.shape import SHAPE_27B
from ..budget import GB10, H200, draft_round
from .arms import anchor_of


@dataclass(frozen=True)
class Row:
    """One line; an empty cell was not measured."""

    arm: str
    context: int
    users: int
    width: int  # 0: the policy's choice
    round_ms: float
    round_ms_min: float
    round_ms_max: float
    draft_ms: float | None
    draft_floor_ms: float | None
    decode_tok_s: float
    launches: float | None
    memory_gb: float | None


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Row)])
        writer.writeheader()
        for row in rows:
            writer.writerow({k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(row).items()})


def read_csv(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open() as file:
        return [
            Row(
                line["arm"], int(line["context"]), int(line["users"]), int(line["width"]), float(line["round_ms"]),
                float(line["round_ms_min"]), float(line["round_ms_max"]), _number(line["draft_ms"]),
                _number(line["draft_floor_ms"]), float(line["decode_tok_s"]), _number(line["launches"]),
                _number(line["memory_gb"]),
            )
            for line in csv.DictReader(file)
        ]  # fmt: skip


def _number(text: str) -> float | None:
    return float(text) if text else None


def merged(old: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """New figures replace those of the same arm, context and users; each pair's anchor is a row of its own."""
    fresh = {(r.arm, r.context, r.users) for r in new}
    return [*(r for r in old if (r.arm, r.context, r.users) not in fresh), *new]


def markdown(rows: Sequence[Row]) -> str:
    """Ratios are to the anchor of the same run, context and users. GB10: the draft's floor there, projected."""
    by_arm = {(r.arm, r.context, r.users): r.round_ms for r in rows}
    lines = [
        "| arm | context | users | round ms [least, most] | to DFlash2 | draft ms | floor ms | launches | tok/s | GB |"
        " draft floor on GB10, projected |",
        "|---" * 11 + "|",
    ]
    for r in sorted(rows, key=lambda r: (r.context, r.users, r.arm)):
        spread = (r.round_ms_max - r.round_ms_min) / r.round_ms
        mark = " (range above 5 %)" if spread > 0.05 else ""
        base = by_arm.get((anchor_of(r.arm), r.context, r.users))
        ratio = None if base is None else r.round_ms / base
        gb10 = None if r.draft_floor_ms is None or not r.width else floor_ms(r.users, r.width, r.context, 8192, True)[1]
        cells = [
            r.arm, f"{r.context:,}", str(r.users),
            f"{r.round_ms:.2f} [{r.round_ms_min:.2f}, {r.round_ms_max:.2f}]{mark}", _cell(ratio, 3),
            _cell(r.draft_ms, 3), _cell(r.draft_floor_ms, 3), _cell(r.launches, 0), f"{r.decode_tok_s:.0f}",
            _cell(r.memory_gb, 1), f"{gb10:.1f} ms" if gb10 is not None and r.arm.startswith("dspine") else "",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def floor_ms(
    users: int, width: int, context: int, window: int, bridge: bool, bandwidth: float = H200.bandwidth
) -> tuple[float, float]:
    """The draft forward's floor at `bandwidth` bytes a second, and a GB10's: embedding to walk, one after the other."""
    shape = replace(SHAPE_27B, window=window)
    left_out = {"KV injection", "accept"} | (set() if bridge else {"bridge", "table"})
    stages = [s for s in draft_round(users, width, context, shape) if s.name not in left_out]
    machine = replace(H200, bandwidth=bandwidth)
    return 1e3 * sum(s.floor(machine) for s in stages), 1e3 * sum(s.floor(GB10) for s in stages)


def plot(rows: Sequence[Row], path: Path) -> bool:
    """Round time by users, a panel a context. False where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    contexts = sorted({r.context for r in rows})
    figure, axes = pyplot.subplots(1, len(contexts), figsize=(5 * len(contexts), 4), squeeze=False)
    for axis, context in zip(axes[0], contexts, strict=True):
        for arm in dict.fromkeys(r.arm for r in rows):
            points = sorted((r.users, r.round_ms) for r in rows if r.arm == arm and r.context == context)
            axis.plot(*zip(*points, strict=True), marker="o", label=arm) if points else None
        axis.set(title=f"context {context:,}", xlabel="users", ylabel="ms a round")
        axis.legend()
    figure.tight_layout()
    figure.savefig(path)
    return True
