"""Other tile sizes of the bridge's launches, timed on this GPU; no server, no SGLang.

    python -m sglang_dspine.bench.bridge_sweep OUT [--sizes 1x8,8x8,8x16,32x16] [--seconds 240]

All five layers in one CUDA graph, at the 27B shape. One field, or two that hang together, is changed at a time; each
variant is compared with the first by its result before it is timed. Kernels are compiled by several processes first.
Writes OUT/bridge_sweep.csv and prints, for each size, the time in each kernel by PyTorch's profiler and the best tiles.
"""

from __future__ import annotations

import csv
import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import torch
import typer

from ..kernels.bridge.kernel import MOST_PARTS
from ..kernels.bridge.naive import LayerBridge
from ..kernels.bridge.plan import plan_injection
from ..kernels.bridge.tiles import Tiles, tiles_for
from ..kernels.shape import SHAPE_27B as S
from .budget import Machine, floor_of
from .gpu_clock import Time, captured, measured_machine, timed
from .stage_inputs import normal

CHANGES: tuple[dict[str, tuple[int, ...]], ...] = (
    {"read": (16, 64), "parts": (4, 8, 2)},
    {"parts": (1, 2, 4, 8)},
    {"read_warps": (2, 8), "read_stages": (3, 4, 6)},
    {"message": (16, 32, 64), "message_warps": (2, 4, 8)},
    {"message_stages": (2, 3, 6)},
    {"write": (16, 32, 64, 128), "write_warps": (2, 4, 8)},
    {"write_stages": (2, 3, 6)},
    {"depth": (64, 128, 256)},
    {"rows": (16, 32, 64)},
)


class Inputs:
    """What the bridge reads at one size."""

    def __init__(self, batch: int, width: int) -> None:
        torch.manual_seed(0)
        self.rows = batch * width
        self.residual, self.delta = (normal(batch, width, S.hidden) for _ in range(2))
        self.anchor = torch.randint(S.vocab, (batch,), device="cuda")
        shared = normal(3 * S.message, S.rank, scale=S.rank**-0.5)
        gate, told, bias = normal(S.vocab, S.message), normal(S.vocab, S.message), normal(S.message, scale=0.2)
        self.layers = [
            LayerBridge(
                normal(S.rank, S.hidden, scale=S.hidden**-0.5), shared, bias,
                normal(S.hidden, S.message, scale=S.message**-0.5), gate, told,
            )
            for _ in range(S.layers)
        ]  # fmt: skip

    def run(self, tiles: Tiles, few: bool) -> torch.Tensor:
        for layer in self.layers:
            launches, made = plan_injection(self.residual, self.delta, self.anchor, layer, few, False, tiles)
            for launch in launches:
                launch.run()
        return made.after


def variants(rows: int) -> Iterator[tuple[str, bool, Tiles]]:
    """Name, whose read-out, tiles; the tiles that are used now come first."""
    for few in (True, False):
        usual = tiles_for(rows, S.hidden, S.rank, few, False)
        seen = {usual}
        yield ("ours" if few else "vendor"), few, usual
        for change in CHANGES:
            if not few and any(name.startswith(("read", "parts")) for name in change):
                continue
            for tiles in _changed(usual, change):
                if tiles not in seen:
                    seen.add(tiles)
                    named = ", ".join(f"{name} {getattr(tiles, name)}" for name in change)
                    yield f"{'ours' if few else 'vendor'}: {named}", few, tiles


def _changed(usual: Tiles, change: dict[str, tuple[int, ...]]) -> Iterator[Tiles]:
    found = [usual]
    for name, values in change.items():
        found = [replace(tiles, **{name: value}) for tiles in found for value in values]
    yield from (tiles for tiles in found if tiles.parts <= int(MOST_PARTS))


def usable(inputs: Inputs, tiles: Tiles, few: bool, expected: torch.Tensor | None) -> bool:
    """Whether it compiles, fits into shared memory, and computes the same up to rounding."""
    try:
        found = inputs.run(tiles, few)
        torch.cuda.synchronize()
    except Exception as error:
        print(f"  left out: {type(error).__name__} {str(error)[:80]}", flush=True)
        return False
    return expected is None or bool((found - expected).abs().amax() <= 0.02 * expected.abs().amax())


def compile_share(sizes: list[tuple[int, int]], share: int, of: int) -> None:
    """In a process of its own: each compiled kernel lies in Triton's cache on disk then."""
    for batch, width in sizes:
        inputs = Inputs(batch, width)
        for index, (_, few, tiles) in enumerate(variants(inputs.rows)):
            if index % of == share:
                usable(inputs, tiles, few, None)


def breakdown(inputs: Inputs, tiles: Tiles, few: bool) -> str:
    """Microseconds a layer in each kernel, within a replayed graph."""
    graph = captured([partial(inputs.run, tiles, few)])
    graph.replay()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(5):
            graph.replay()
        torch.cuda.synchronize()
    times = {e.key: e.device_time_total / (5 * S.layers) for e in profile.key_averages() if e.device_time_total}
    return ", ".join(f"{name[:40]} {us:.1f}" for name, us in sorted(times.items(), key=lambda item: -item[1]))


def main(
    out: Path,
    sizes: str = typer.Option("1x8,8x8,8x16,32x16", help="Users x width."),
    seconds: float = typer.Option(240, help="Time no further variant after so long."),
    processes: int = typer.Option(min(12, os.cpu_count() or 1), help="That compile."),
) -> None:
    """Sweep, and print the best."""
    begin = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    shapes = [(int(batch), int(width)) for batch, _, width in (size.partition("x") for size in sizes.split(","))]
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=compile_share, args=(shapes, i, processes)) for i in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(max(1, begin + seconds / 2 - time.monotonic()))
        worker.kill()
    print(f"compiled after {time.monotonic() - begin:.0f} s", flush=True)
    with torch.inference_mode():
        machine = measured_machine()
        rows = [row for batch, width in shapes for row in sweep(batch, width, machine, begin + seconds)]
    with (out / "bridge_sweep.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def sweep(batch: int, width: int, machine: Machine, end: float) -> list[dict[str, object]]:
    inputs, rows = Inputs(batch, width), []
    floor = 1e6 * floor_of("bridge", batch, width, 8192, machine)
    first, few, usual = next(iter(variants(inputs.rows)))
    expected = inputs.run(usual, few).clone()
    for which in (True, False):
        print(f"{batch} x {width} {'ours' if which else 'vendor'}: {breakdown(inputs, usual, which)}", flush=True)
    for name, whose, tiles in variants(inputs.rows):
        if time.monotonic() > end or not usable(inputs, tiles, whose, expected):
            continue
        found: Time = timed({name: [partial(inputs.run, tiles, whose)]}, 4)[name]
        rows.append({"users": batch, "width": width, "variant": name, "us": round(found.median, 1),
                     "us_min": round(found.least, 1), "us_max": round(found.most, 1), "floor_us": round(floor, 1),
                     **asdict(tiles)})  # fmt: skip
    best = sorted(rows, key=lambda row: float(str(row["us"])))[:6]
    now = next(row for row in rows if row["variant"] == first)
    ranked = "; ".join(f"{row['variant']} {row['us']}" for row in best)
    print(f"{batch} x {width}: floor {floor:.1f}, now {now['us']}; {ranked}", flush=True)
    return rows


if __name__ == "__main__":
    typer.run(main)
