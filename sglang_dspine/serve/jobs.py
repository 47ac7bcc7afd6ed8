"""How many compilers may run at once when kernels are built at the first start (report 26)."""

from __future__ import annotations

import os

from ..preflight.gpu import Memory

JOB_BYTES = 4_000_000_000  # what one nvcc of an attention kernel can take
MOST = 16
MOST_UNIFIED = 4  # each job takes memory from the GPU as well


def compile_jobs(memory: Memory, cores: int | None = None) -> int:
    """For MAX_JOBS, which torch, FlashInfer and SGLang's own builds heed; unset, each takes every core.

    By the memory there is, not by what is free: a second start has the same settings as the first.
    """
    cores = cores or os.cpu_count() or 1
    if memory.unified:
        return max(1, min(cores, MOST_UNIFIED, memory.total // 4 // JOB_BYTES))
    return min(cores, MOST)
