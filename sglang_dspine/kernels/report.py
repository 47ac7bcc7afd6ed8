"""Compile every kernel ahead of time and print what it takes of a processor.

    python -m sglang_dspine.kernels.report [--quick]

For Hopper (sm_90) and GB10 (sm_121), at the 27B drafter's shape, without a GPU. Registers a thread and stack bytes
(spills lie there) are cuobjdump's, shared memory is the launch's. Exit status 1 if a kernel spills or asks for more
shared memory than a block may have.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from .at_shape import launches, table_launches
from .head_rows.form import FP8, NVFP4
from .launch import Launch

# bytes a block may have: CUDA Programming Guide, "Technical Specifications per Compute Capability": 227 KB and 99 KB
SHARED_LIMIT = {90: 232_448, 121: 101_376}


@dataclass(frozen=True)
class Usage:
    """Of one compiled kernel."""

    registers: int  # a thread
    stack: int  # bytes a thread
    shared: int  # bytes a block
    seconds: float  # of compilation


def usage(launch: Launch, capability: int) -> Usage:
    begin = time.monotonic()
    compiled = launch.compile(capability)
    seconds = time.monotonic() - begin
    listing = resource_usage(compiled)
    registers, stack = (int(value) for value in re.findall(r"(?:REG|STACK):(\d+)", listing)[:2])
    return Usage(registers, stack, int(compiled.metadata.shared), seconds)


def resource_usage(compiled: Any) -> str:
    """cuobjdump's words; it comes with Triton."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        return subprocess.run([str(tool), "-res-usage", file.name], capture_output=True, text=True, check=True).stdout


def cases(quick: bool) -> Iterator[tuple[str, Launch]]:
    """What it is for, and the launch; variants that differ in constants only by the batch are taken once."""
    seen = set()
    sizes = [(8, 8)] if quick else [(1, 8), (1, 16), (4, 8), (8, 8), (8, 16), (16, 16), (32, 8), (32, 16)]
    for batch, width in sizes:
        for launch in launches(batch, width):
            variant = (launch.name, *sorted(launch.constants.items()), launch.warps, launch.stages)
            if variant not in seen:
                seen.add(variant)
                yield f"{batch} x {width}", launch
    for name, form in () if quick else (("FP8 head", FP8), ("NVFP4 head", NVFP4)):
        for batch in (1, 32):
            yield f"{batch} x 16, {name}", table_launches(batch, 16, form)[0]


def fits(found: Usage, capability: int) -> bool:
    return found.stack == 0 and found.shared <= SHARED_LIMIT[capability]


def main(quick: bool = typer.Option(False, help="One batch size only.")) -> None:
    """Markdown, a line a kernel variant."""
    with tempfile.TemporaryDirectory() as cache:  # seconds of compilation, not of finding it done
        os.environ["TRITON_CACHE_DIR"] = cache
        raise typer.Exit(0 if table(quick) else 1)


def table(quick: bool) -> bool:
    """Print it; whether every kernel fits."""
    capabilities = sorted(SHARED_LIMIT)
    print(f"| kernel | batch x width |{' registers, stack, shared, compiled in |' * len(capabilities)}")
    print("|---|---|" + "---|" * len(capabilities))
    sound = True
    for size, launch in cases(quick):
        cells = []
        for capability in capabilities:
            found = usage(launch, capability)
            sound &= fits(found, capability)
            cells.append(
                f"sm_{capability}: {found.registers}, {found.stack}, {found.shared:,} B, {found.seconds:.1f} s"
            )
        print(f"| {launch.name} | {size} | {' | '.join(cells)} |", flush=True)
    return sound


if __name__ == "__main__":
    typer.run(main)
