"""What was measured, as CSV, JSON, Markdown and plots."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..evidence.plot import MISSING, Line, can_plot, draw
from ..evidence.ratio import Ratio
from ..evidence.table import markdown, write_csv
from .anchor import label
from .count import Lengths, blocks, conditional, mean_length, ratio
from .run import Measured


def write_report(measured: Measured) -> list[Path]:
    """ratios.csv, blocks.csv, report.json, report.md, and plots where matplotlib is installed."""
    folder = measured.settings.folder
    write_csv(folder / "ratios.csv", ratio_rows(measured))
    write_csv(folder / "blocks.csv", block_rows(measured))
    (folder / "report.json").write_text(json.dumps(to_dict(measured), indent=1) + "\n", encoding="utf-8")
    plots = _plots(measured) if can_plot() else []
    pictures = "".join(f"\n![{path.stem}]({path.name})\n" for path in plots) or f"\n{MISSING}\n"
    (folder / "report.md").write_text(render(measured) + pictures, encoding="utf-8")
    return [folder / name for name in ("ratios.csv", "blocks.csv", "report.json", "report.md")] + plots


def ratio_rows(measured: Measured) -> list[dict[str, Any]]:
    """One line a comparison with the first arm: the ratio of mean accepted lengths, and what stands behind it."""
    rows = []
    base, *others = measured.lengths
    for arm in others:
        found = ratio(measured.lengths[arm], measured.lengths[base])
        if found is not None:
            rows.append(
                {
                    "comparison": f"{arm} / {base}", "ratio": f"{found.value:.4f}", "low": f"{found.low:.4f}",
                    "high": f"{found.high:.4f}", "sequences": found.count, "anchors": measured.anchors,
                }
            )  # fmt: skip
    return rows


def block_rows(measured: Measured) -> list[dict[str, Any]]:
    """The counts everything is computed from."""
    return [
        {
            "arm": arm, "sequence": sequence, "context": label(bucket, measured.settings.edges),
            "blocks": blocks(histogram), "accepted": int(histogram @ range(len(histogram))),
            "blocks_by_length": " ".join(map(str, histogram[1:])),
        }
        for arm, lengths in measured.lengths.items()
        for (sequence, bucket), histogram in lengths.histograms.items()
    ]  # fmt: skip


def to_dict(measured: Measured) -> dict[str, Any]:
    base = next(iter(measured.lengths))
    edges = measured.settings.edges
    arms = {}
    for arm, lengths in measured.lengths.items():
        places: list[tuple[str, int | None]] = [("all", None)]
        places += [(label(bucket, edges), bucket) for bucket in lengths.buckets]
        arms[arm] = {
            "words": next(a.words for a in measured.settings.arms if a.name == arm),
            "width": lengths.width,
            "accepted_length": {name: mean_length(lengths.total(bucket)) for name, bucket in places},
            "blocks": {name: blocks(lengths.total(bucket)) for name, bucket in places},
            "over_baseline": {
                name: _ratio_dict(ratio(lengths, measured.lengths[base], bucket)) for name, bucket in places
            },
            "right_of_tried": conditional(lengths.total()),
        }
    return measured.header | {
        "against": measured.settings.against,
        "dtype": measured.settings.dtype,
        "sequences": measured.sequences,
        "anchors": measured.anchors,
        "baseline": base,
        "arms": arms,
    }


def render(measured: Measured) -> str:
    """The Markdown report without pictures."""
    s = measured.settings
    base, *others = measured.lengths
    against = {"recorded": "the recorded tokens", "argmax": "the target's best token after each recorded one"}[
        s.against
    ]
    head = (
        f"# Acceptance, offline\n\n{measured.anchors} anchors in {measured.sequences} conversations, the same for "
        f"every arm; target `{s.target}` in {s.dtype}, teacher-forced, greedy drafts, scored against {against}. "
        "Accepted length: leading proposals that are right, and the bonus; means from counts. Intervals: 95 %, over "
        f"conversations. Baseline: {base}.\n"
    )
    rows = [
        [arm, lengths.width, f"{mean_length(lengths.total()):.3f}", _over(measured, arm, None)]
        for arm, lengths in measured.lengths.items()
    ]
    parts = [
        head,
        "## Accepted length\n\n" + markdown(["arm", "width", "accepted length", f"over {base} [95 %]"], rows),
    ]
    buckets = measured.lengths[base].buckets
    if len(buckets) > 1:
        table = [[label(b, s.edges), *_in_bucket(measured, b)] for b in buckets]
        columns = ["context", f"{base} (blocks)", *others]
        parts.append("## By context length\n\n" + markdown(columns, table))
    parts.append("## By position: right where all before were right, %\n\n" + _positions(measured.lengths))
    return "\n".join(parts)


def _in_bucket(measured: Measured, bucket: int) -> list[str]:
    base, *others = measured.lengths
    total = measured.lengths[base].total(bucket)
    cells = [f"{mean_length(total):.3f} ({blocks(total)})"]
    for arm in others:
        mean = mean_length(measured.lengths[arm].total(bucket))
        cells.append(f"{mean:.3f}, {_over(measured, arm, bucket) or 'one sequence'}")
    return cells


def _over(measured: Measured, arm: str, bucket: int | None) -> str | None:
    base = next(iter(measured.lengths))
    found = None if arm == base else ratio(measured.lengths[arm], measured.lengths[base], bucket)
    return None if found is None else str(found)


def _positions(lengths: dict[str, Lengths]) -> str:
    deepest = max(found.width for found in lengths.values()) - 1
    rows = []
    for arm, found in lengths.items():
        shares = [f"{100 * right / tried:.0f}" if tried else None for right, tried in conditional(found.total())]
        rows.append([arm, *shares, *[None] * (deepest - len(shares))])
    return markdown(["arm", *map(str, range(1, deepest + 1))], rows)


def _ratio_dict(found: Ratio | None) -> dict[str, float] | None:
    return None if found is None else {"ratio": found.value, "low": found.low, "high": found.high}


def _plots(measured: Measured) -> list[Path]:
    folder, edges = measured.settings.folder, measured.settings.edges
    positions = {arm: line for arm, found in measured.lengths.items() if (line := _position_line(found)) is not None}
    draw(
        folder / "positions.png", positions, title="right where all before were right", x="proposal", y="share"
    )  # fmt: skip
    written = [folder / "positions.png"]
    buckets = next(iter(measured.lengths.values())).buckets
    if len(buckets) > 1:
        places = list(range(len(buckets)))
        lines = {
            arm: Line(places, [mean_length(found.total(b)) for b in buckets]) for arm, found in measured.lengths.items()
        }
        names: Sequence[str] = [label(b, edges) for b in buckets]
        path = folder / "contexts.png"
        draw(path, lines, title="accepted length by context", x="context", y="accepted length", ticks=names)
        written.append(path)
    return written


def _position_line(found: Lengths) -> Line | None:
    tried = [(i, right, of) for i, (right, of) in enumerate(conditional(found.total()), 1) if of]
    if not tried:
        return None
    return Line([i for i, _, _ in tried], [right / of for _, right, of in tried])
