"""The transition table in its direct form: refined states of H numbers, for torch.compile to fuse and to be timed
against. Even so it is spared the codes: their projections come from the tables the low-rank form uses."""

from __future__ import annotations

import torch

from ..kernels.bridge.naive import row_scale
from ..kernels.table_walk.naive import predecessors
from ..kernels.table_walk.parts import TableWeights


def direct_table(
    x: torch.Tensor,
    receive: torch.Tensor,
    candidates: torch.Tensor,
    anchor: torch.Tensor,
    weights: TableWeights,
    head: torch.Tensor,
) -> torch.Tensor:
    """Shapes as in `kernels/table_walk/naive.py`; head [V, H]. -> scores [N, R, K, K] fp32"""
    before = predecessors(anchor, candidates)
    message = torch.sigmoid(receive[:, :, None] + weights.token_gate[before]) * weights.token_message[before]
    y = x[:, :, None] + row_scale(x)[:, :, None] * (message @ weights.write.T)  # [N, R, K, H]
    wide = y.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + weights.eps)
    refined = weights.norm * wide.to(x.dtype)
    return (refined @ head[candidates].transpose(-1, -2)).float()
