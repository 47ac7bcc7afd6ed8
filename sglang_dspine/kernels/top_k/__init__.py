"""Top-k over the coarse logits."""

from __future__ import annotations

import torch

from ..switch import use_kernels
from .naive import top_k_naive


def top_k(logits: torch.Tensor, vocab: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The K best of the first `vocab` columns of each row, best first. [T, >= V] -> values and int64 ids [T, K]"""
    if not use_kernels(logits):
        return top_k_naive(logits, vocab, k)
    from .plan import plan_top_k

    launches, values, ids = plan_top_k(logits, vocab, k)
    for launch in launches:
        launch.run()
    return values, ids
