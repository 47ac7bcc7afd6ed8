"""The launch of the repair."""

from __future__ import annotations

import torch

from ..launch import Launch
from .kernel import repair_bad_rows


def plan_repair(logits: torch.Tensor, most: torch.Tensor) -> list[Launch]:
    """For logits [R, V] whose rows are contiguous, and their largest values [R]."""
    assert logits.stride(1) == 1 and most.shape == logits.shape[:1] and most.is_contiguous()
    sizes = {"stride": logits.stride(0), "vocab": logits.shape[1]}
    return [
        Launch(repair_bad_rows, (logits.shape[0],), {"logits": logits, "most": most} | sizes, {"BLOCK": 4096}, 8, 1)
    ]
