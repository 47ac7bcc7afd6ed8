"""The K best tokens of each row in plain torch.

| name | shape | at 27B | meaning |
|---|---|---|---|
| logits | [T, >= V] | [7..480, 248320] | coarse logits, BF16 or FP32; columns from V on are padding |
| values, ids | [T, K] | [.., 16] | best first; equal values: the lowest id first; NaN counts as the largest value |
"""

from __future__ import annotations

import torch


def top_k_naive(logits: torch.Tensor, vocab: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Values in the logits' dtype and int64 ids. [T, >= V] -> [T, K] twice"""
    if logits.is_cuda:  # a sort of the whole vocabulary only to order ties is too much to time against
        return torch.topk(logits[:, :vocab], k, dim=-1)
    values, ids = torch.sort(logits[:, :vocab], dim=-1, descending=True, stable=True)
    return values[:, :k], ids[:, :k]
