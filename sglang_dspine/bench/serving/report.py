"""A run as CSV, Markdown and plots; two runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...evidence.plot import MISSING, Line, can_plot, draw
from ...evidence.spread import GATE, Spread
from ...evidence.table import markdown, write_csv
from .cell import Cell
from .results import Run
from .verdict import Verdict, within

Of = Callable[[Cell], float | None]
MARK = " ~"  # after a cell whose spread exceeds the gate

# title, digits, where it stands in a cell
TABLES: tuple[tuple[str, int, Of], ...] = (
    ("End-to-end tok/s, all users", 1, lambda c: c.tok_s),
    ("tok/s per user while decoding", 1, lambda c: c.user_tok_s),
    ("Accepted length, bonus included", 2, lambda c: c.accepted_length),
    ("First token, ms, median", 0, lambda c: c.ttft_ms.get("50")),
    ("First token, ms, 99 %", 0, lambda c: c.ttft_ms.get("99")),
    ("Between tokens, ms, median", 1, lambda c: c.itl_ms.get("50")),
    ("Between tokens, ms, 99 %", 1, lambda c: c.itl_ms.get("99")),
    ("Between arrivals, ms, 99 %", 1, lambda c: c.stall_ms.get("99")),
    ("Prompt tokens from the prefix cache, %", 1, lambda c: None if c.cached_share is None else 100 * c.cached_share),
    ("Repeated 32-grams, %", 1, lambda c: None if c.repetition_share is None else 100 * c.repetition_share),
    ("Host memory free at the lowest, GiB", 1, lambda c: c.machine.get("host_free_low_gib")),
    ("GPU memory free at the lowest, GiB", 1, lambda c: c.machine.get("gpu_free_low_gib")),
    ("GPU clock at the lowest, MHz", 0, lambda c: c.machine.get("clock_low_mhz")),
    ("GPU temperature at the highest, °C", 0, lambda c: c.machine.get("temperature_high_c")),
)


def write_report(run: Run, folder: Path, gate: float = GATE) -> list[Path]:
    """cells.csv, report.md, and plots where matplotlib is installed; what was written."""
    write_csv(folder / "cells.csv", [csv_row(cell) for cell in run.cells])
    plots = _plots(run, folder) if can_plot() else []
    text = render(run, gate) + "".join(f"\n![{path.stem}]({path.name})\n" for path in plots)
    if not plots:
        text += f"\n{MISSING}\n"
    (folder / "report.md").write_text(text, encoding="utf-8")
    return [folder / "cells.csv", folder / "report.md", *plots]


def render(run: Run, gate: float = GATE) -> str:
    """The Markdown report without pictures."""
    parts = [_heading(run, gate)]
    for title, digits, of in TABLES:
        rows = [[users, *(_text(run.of(arm, users), of, digits, gate) for arm in run.arms)] for users in run.users]
        if any(cell is not None for row in rows for cell in row[1:]):
            parts.append(f"## {title}\n\n{markdown(['users', *run.arms], rows)}")
    parts += [_histogram(run, "Rounds by accepted proposals, %", lambda c: c.accepted)]
    parts += [_histogram(run, "Rounds by verify width, %", lambda c: c.widths)]
    base, *others = run.arms
    for arm in others:
        parts.append(f"## {arm} over {base}\n\n{verdict_table(within(run, base, arm, gate))}")
    failed = [c for c in run.cells if c.failed]
    if failed:
        rows = [[c.arm, c.users, c.repetition + 1, f"{c.failed} of {c.requests}", "; ".join(c.errors)] for c in failed]
        parts.append("## Failed requests\n\n" + markdown(["arm", "users", "repetition", "failed", "error"], rows))
    return "\n".join(part for part in parts if part)


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    rows = [[v.users, v.arm, v.measure, v.ratio, None if v.p is None else f"{v.p:.2g}", v.word] for v in verdicts]
    return markdown(["users", "arm", "measure", "ratio [95 %]", "p, Holm", "verdict"], rows)


def csv_row(cell: Cell) -> dict[str, Any]:
    plain = ("arm", "users", "repetition", "seed", "requests", "failed", "seconds", "completion_tokens", "tok_s")
    row = {name: getattr(cell, name) for name in plain}
    row |= {name: getattr(cell, name) for name in ("user_tok_s", "accepted_length", "cached_share", "repetition_share")}
    for what in ("ttft_ms", "itl_ms", "stall_ms"):
        row |= {f"{what}_p{p}": value for p, value in getattr(cell, what).items()}
    for what in ("accepted", "widths"):
        row[f"rounds_by_{what}"] = " ".join(map(str, getattr(cell, what)))
    return row | cell.machine


def _heading(run: Run, gate: float) -> str:
    header, load = run.header, run.header.get("workload", {})
    lines = ["# Serving benchmark\n"]
    if header:
        gpu = header["host"]["gpu"] or f"no GPU ({header['host']['machine']})"
        lines += [
            f"{gpu}; SGLang {header['versions']['sglang']}, torch {header['versions']['torch']}; {header['written']}.",
            f"{load['conversations']} conversations, {load['turns']} turns, {load['prompt_tokens']} prompt tokens "
            f"({load['source']}, fingerprint {load['fingerprint']}); sampling {header['sampling']}.",
            f"{header['repetitions']} repetitions, seeds {header['seeds']}, arms in the order A B B A, "
            f"{header['cache']} prefix cache, one unmeasured pass before the first cell of each server.\n",
        ]
        for arm in header["arms"]:
            stated = ", ".join(f"{name} {value}" for name, value in (arm.get("server") or {}).items())
            lines.append(
                f"- {arm['name']}: `{arm['command'] or arm['url']}`\n  ({stated or 'its settings are unknown'})"
            )
    lines.append(
        f"\nMedian [min-max] (N); nothing dropped. {MARK.strip()} marks a cell whose range exceeds {100 * gate:.0f} % "
        "of its median, or that was run once: it is kept and never quoted as a win."
    )
    return "\n".join(lines) + "\n"


def _text(cells: Sequence[Cell], of: Of, digits: int, gate: float) -> str | None:
    spread = Spread.of([of(cell) for cell in cells])
    return None if spread is None else spread.text(digits) + ("" if spread.within(gate) else MARK)


def _histogram(run: Run, title: str, of: Callable[[Cell], tuple[int, ...]]) -> str:
    """Shares of rounds at each place, per arm and users; places no round took are left out."""
    rows, places = [], set()
    for arm in run.arms:
        for users in run.users:
            added: dict[int, int] = {}
            for cell in run.of(arm, users):
                for place, count in enumerate(of(cell)):
                    added[place] = added.get(place, 0) + count
            if total := sum(added.values()):
                rows.append((arm, users, {place: 100 * count / total for place, count in added.items()}))
                places |= {place for place, count in added.items() if count}
    if not rows:
        return ""
    columns = sorted(places)
    table = [[arm, users, *(f"{share.get(p, 0):.0f}" for p in columns)] for arm, users, share in rows]
    return f"## {title}\n\n" + markdown(["arm", "users", *map(str, columns)], table)


def _plots(run: Run, folder: Path) -> list[Path]:
    wanted: tuple[tuple[str, str, Of], ...] = (
        ("tok_s", "tok/s, all users", lambda c: c.tok_s),
        ("user_tok_s", "tok/s per user while decoding", lambda c: c.user_tok_s),
        ("accepted_length", "accepted length", lambda c: c.accepted_length),
    )
    written = []
    for name, label, of in wanted:
        lines = {arm: line for arm in run.arms if (line := _line(run, arm, of)) is not None}
        if lines:
            draw(folder / f"{name}.png", lines, title=f"{label}: median and range", x="users", y=label)
            written.append(folder / f"{name}.png")
    return written


def _line(run: Run, arm: str, of: Of) -> Line | None:
    spreads = {users: Spread.of([of(c) for c in run.of(arm, users)]) for users in run.users}
    known = {users: s for users, s in spreads.items() if s is not None}
    if not known:
        return None
    values = list(known.values())
    return Line(list(known), [s.median for s in values], [s.low for s in values], [s.high for s in values])
