"""Kernels of the draft round on this GPU: right against their plain forms, and timed against them and their floors.

    python -m sglang_dspine.bench.stages OUT [--no-compiled] [--batches 1,8,16,32] [--widths 8,16]

Random weights at the 27B drafter's shape; no server, no SGLang; under 4 minutes on an H200 with 16 GB free. First each
kernel is compared with the float32 result of the same BF16 inputs, beside the plain BF16 form; then it is timed by CUDA
events around CUDA graphs, forms in turns. Prints a table and writes OUT/stages.csv. Exit status 1 if a kernel is
further from float32 than its plain form by more than a tenth, or a walk or top-k differs.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
import typer

from ..kernels.bridge.naive import inject_naive
from ..kernels.bridge.plan import plan_injection
from ..kernels.shape import SHAPE_27B, Shape
from ..kernels.table_walk.naive import table_naive, walk_naive
from ..kernels.table_walk.plan import plan_table_walk
from ..kernels.top_k.naive import top_k_naive
from ..kernels.top_k.plan import plan_top_k
from .budget import Machine, floor_of
from .direct_table import direct_table
from .gpu_clock import Time, measured_machine, timed
from .stage_checks import check_all
from .stage_inputs import Batch, Weights

Call = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One line of the CSV; microseconds."""

    stage: str
    batch: int
    width: int
    form: str  # kernel, dependent (launches overlap), vendor (its read-out), torch, compiled (the direct table)
    us: float
    us_min: float
    us_max: float
    floor_us: float
    ratio: float  # us / floor_us


def run_bridge(w: Weights, b: Batch, dependent: bool, few: bool | None = None) -> None:
    for layer in w.layers:
        for launch in plan_injection(b.residual, b.delta, b.anchor, layer, few, dependent)[0]:
            launch.run()


def run_table(w: Weights, b: Batch, candidates: torch.Tensor, dependent: bool) -> None:
    launches, _ = plan_table_walk(
        b.before[:, 1:], b.receive, b.projected(w), candidates, b.anchor, w.table, w.prepared, w.stored, b.draw,
        b.proposal, dependent=dependent,
    )  # fmt: skip
    for launch in launches:
        launch.run()


def torch_table(w: Weights, b: Batch, candidates: torch.Tensor) -> object:
    scores = table_naive(b.before[:, 1:], b.receive, candidates, b.anchor, w.table, w.rows)
    return walk_naive(candidates, scores, *b.draw)


def compiled_table(direct: Callable[..., torch.Tensor], w: Weights, b: Batch, candidates: torch.Tensor) -> object:
    scores = direct(b.before[:, 1:], b.receive, candidates, b.anchor, w.table, w.head)
    return walk_naive(candidates, scores, *b.draw)


def run_top_k(logits: torch.Tensor, s: Shape, dependent: bool) -> None:
    for launch in plan_top_k(logits, s.vocab, s.top_k, dependent)[0]:
        launch.run()


def stage_arms(w: Weights, b: Batch, compiled: Callable[..., torch.Tensor] | None) -> dict[str, dict[str, list[Call]]]:
    """stage -> form -> calls that together read more than the cache holds."""
    s = w.shape
    logits = b.u @ w.head.T  # [T, V]
    table: dict[str, list[Call]] = {
        "kernel": [partial(run_table, w, b, c, False) for c in b.candidates],
        "dependent": [partial(run_table, w, b, c, True) for c in b.candidates],
        "torch": [partial(torch_table, w, b, c) for c in b.candidates],
    }
    if compiled is not None:
        table["compiled"] = [partial(compiled_table, compiled, w, b, c) for c in b.candidates]
    return {
        "bridge": {
            "kernel": [lambda: run_bridge(w, b, False)],
            "dependent": [lambda: run_bridge(w, b, True)],
            "vendor": [lambda: run_bridge(w, b, False, few=False)],
            "torch": [lambda: [inject_naive(b.residual, b.delta, b.anchor, layer) for layer in w.layers]],
        },
        "head": {"torch": [lambda: b.u @ w.head.T]},
        "top-k": {
            "kernel": [lambda: run_top_k(logits, s, False)],
            "dependent": [lambda: run_top_k(logits, s, True)],
            "torch": [lambda: top_k_naive(logits, s.vocab, s.top_k)],
        },
        "table and walk": table,
    }


def floor_us(stage: str, b: Batch, machine: Machine) -> float:
    names = ("table", "walk") if stage == "table and walk" else (stage,)
    return 1e6 * sum(floor_of(name, b.n, b.width, 8192, machine) for name in names)


def rows_of(stage: str, b: Batch, times: dict[str, Time], floor: float) -> list[Row]:
    return [
        Row(stage, b.n, b.width, form, t.median, t.least, t.most, floor, t.median / floor) for form, t in times.items()
    ]


def report(rows: list[Row]) -> None:
    kernel = next((row for row in rows if row.form == "kernel"), rows[0])
    others = "  ".join(f"{row.form} {row.us:8.1f}" for row in rows if row is not kernel)
    spread = (kernel.us_max - kernel.us_min) / kernel.us
    print(
        f"{kernel.stage:>14} {kernel.batch:3d} x {kernel.width:2d}  {kernel.form} {kernel.us:8.1f} us "
        f"(range {spread:4.0%})  floor {kernel.floor_us:7.1f}  ratio {kernel.ratio:5.2f}  {others}",
        flush=True,
    )


def main(
    out: Path,
    batches: str = typer.Option("1,8,16,32", help="Users."),
    widths: str = typer.Option("8,16", help="Rows a block."),
    compiled: bool = typer.Option(True, help="Compile the direct form of the table at the largest batch."),
    seconds: float = typer.Option(220, help="Start no further cell after so long."),
) -> None:
    """Check, then time."""
    begin = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    rows: list[Row] = []
    with torch.inference_mode():
        machine = measured_machine()
        print(
            f"{machine.name}: copy {machine.bandwidth / 1e12:.2f} TB/s, BF16 {machine.bf16 / 1e12:.0f} TFLOP/s, "
            f"FP8 {machine.fp8 / 1e12:.0f} TFLOP/s",
            flush=True,
        )
        weights = Weights(SHAPE_27B)
        failures = check_all(weights)
        print(f"checks: {len(failures)} failed, {time.monotonic() - begin:.0f} s", flush=True)
        sizes = [int(n) for n in batches.split(",")]
        for n in sorted(sizes, reverse=True):
            for width in sorted((int(w) for w in widths.split(",")), reverse=True):
                if time.monotonic() - begin > seconds:
                    print(f"{n} x {width}: left out, {seconds:.0f} s are over", flush=True)
                    continue
                direct = torch.compile(direct_table, dynamic=False) if compiled and n == max(sizes) else None
                batch = Batch(weights.shape, n, width)
                for stage, arms in stage_arms(weights, batch, direct).items():
                    try:
                        times = timed(arms)
                    except Exception as error:  # a form that does not run must not cost the others' figures
                        print(f"{stage} {n} x {width}: {type(error).__name__}: {str(error)[:300]}")
                        failures.append(stage)
                        times = timed({form: calls for form, calls in arms.items() if form == "torch"})
                    found = rows_of(stage, batch, times, floor_us(stage, batch, machine))
                    report(found)
                    rows += found
    with (out / "stages.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(Row.__dataclass_fields__))
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    print(f"{len(rows)} rows in {out / 'stages.csv'}, {time.monotonic() - begin:.0f} s")
    raise typer.Exit(1 if failures else 0)


if __name__ == "__main__":
    typer.run(main)
