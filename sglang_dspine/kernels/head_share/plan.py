"""Tiles and grid of the share."""

from __future__ import annotations

import torch

from ..head_rows.form import StoredHead
from ..launch import Launch, power_of_2, tile
from ..table_walk.parts import Prepared, TableWeights
from .kernel import head_share
from .naive import Share


def plan_head_share(
    x: torch.Tensor,
    candidates: torch.Tensor,
    weights: TableWeights,
    prepared: Prepared,
    head: StoredHead,
    start: int,
    owned: int,
    share: Share,
) -> Launch:
    """The launch that fills `share`; prepared.seen and head hold this rank's rows. x [N, R, H] as in the table."""
    hidden, (_, row_count, k) = x.shape[-1], candidates.shape
    m = prepared.seen.shape[1]
    assert x.stride(-1) == 1 and candidates.is_contiguous()
    return Launch(
        head_share,
        (candidates.numel(),),
        {
            "x": x, "candidates": candidates, "norm": weights.norm, "seen": prepared.seen, **head.arguments(),
            "shared": share.seen, "own": share.own, "row_count": row_count, "x_block": x.stride(0),
            "x_row": x.stride(1), "start": start, "owned": owned,
        },
        {
            **head.constants(), "H": hidden, "K": k, "M": m, "MP": power_of_2(m), "BH": tile(hidden, 16, 1024),
            "PARTS": share.parts,
        },
        warps=4,
        stages=1,
    )  # fmt: skip
