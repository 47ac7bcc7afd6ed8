"""Dependent launches: a kernel starts while the one before it still runs, asks for its weights, and then waits.

CUDA Programming Guide, "Programmatic Dependent Launch": from Hopper on. Between two small kernels a launch otherwise
costs the drain of the first and the start of the second, longer than either works on a few rows. A kernel that
takes part must wait (`wait_for_inputs`) before it reads or writes anything that another kernel of the stream writes;
weights are never written, so they may be fetched before. Off unless DSPINE_DEPENDENT_LAUNCHES=1: not timed yet.
"""

from __future__ import annotations

import os

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

SWITCH = "DSPINE_DEPENDENT_LAUNCHES"


def dependent_launches() -> bool:
    return os.environ.get(SWITCH, "0") == "1"


def overlap(dependent: bool | None) -> dict[str, bool]:
    """The constant that kernels taking part have; None: as the environment says."""
    return {"DEPENDENT": dependent_launches() if dependent is None else dependent}


@triton.jit
def wait_for_inputs():
    """Let the next kernel start, and wait for what the kernels before this one write."""
    gdc_launch_dependents()
    gdc_wait()


@triton.jit
def fetch_ahead(
    weight, first, limit, column, end, LENGTH: tl.constexpr, ROWS: tl.constexpr, LINES: tl.constexpr
):  # fmt: skip
    """Ask the L2 cache for rows [first, first + ROWS), columns [column, end) of a 16-bit weight [limit, LENGTH].

    One request a line of 128 bytes, 64 numbers; nothing waits for it. Addresses beyond are clamped, not masked.
    """
    rows = tl.minimum(first + tl.arange(0, ROWS), limit - 1)
    for start in range(column, end, 64 * LINES):
        columns = tl.minimum(start + 64 * tl.arange(0, LINES), LENGTH - 1)
        at = weight + rows[:, None] * LENGTH + columns[None, :]
        tl.inline_asm_elementwise(
            "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [at.to(tl.int64)], dtype=tl.int32, is_pure=False, pack=1
        )
