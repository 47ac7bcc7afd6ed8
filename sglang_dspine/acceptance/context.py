"""The projected context behind each anchor, as a batch, cut to what the drafter's window lets it see.

RoPE tells rows apart by their distance alone, so a context may be cut at its old end and counted from there: what a
window of 2,048 hides of 32,768 positions need be neither projected nor moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

CPU_BYTES, GPU_BYTES = 1 << 28, 1 << 33  # of keys, values and logits drafted together


def batches(at: Sequence[int], reach: int | None, row_bytes: int, device: str) -> Iterator[list[int]]:
    """Places in `at`, so many together as memory allows."""
    budget = CPU_BYTES if device == "cpu" else GPU_BYTES
    batch: list[int] = []
    longest = 0
    for place, position in enumerate(at):
        need = position if reach is None else min(position, reach)
        if batch and (len(batch) + 1) * max(longest, need) * row_bytes > budget:
            yield batch
            batch, longest = [], 0
        batch.append(place)
        longest = max(longest, need)
    if batch:
        yield batch


def behind(context: Tensor, at: Sequence[int], reach: int | None) -> tuple[Tensor, Tensor]:
    """context [S, H], anchors at `at` -> [N, P, H], the rows before each anchor, and how many of them count [N]."""
    starts = [0 if reach is None else max(0, position - reach) for position in at]
    lengths = [position - start for position, start in zip(at, starts, strict=True)]
    rows = context.new_zeros(len(at), max(lengths), context.shape[-1])
    for place, (position, start) in enumerate(zip(at, starts, strict=True)):
        rows[place, : position - start] = context[start:position]
    return rows, torch.tensor(lengths, device=context.device)
