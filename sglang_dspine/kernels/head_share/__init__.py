"""The table's input where the head is spread over ranks: what one of them adds to the sum."""

from __future__ import annotations

import torch

from ..head_rows.form import StoredHead
from ..switch import use_kernels
from ..table_walk.parts import HeadRows, Prepared, TableWeights
from .naive import Share, head_share_naive


def head_share(
    x: torch.Tensor,
    candidates: torch.Tensor,
    weights: TableWeights,
    local_rows: HeadRows,
    start: int,
    owned: int,
    prepared: Prepared | None = None,
    head: StoredHead | None = None,
) -> Share:
    """This rank's share; its payload is to be summed over ranks and read by `Share.given`.

    x [N, R, H], candidates [N, R, K]; the rank owns tokens start .. start + owned - 1.
    """
    share = Share(candidates, weights.write.shape[1], x.dtype)
    if prepared is None or head is None or owned == 0 or not use_kernels(x):
        head_share_naive(x, candidates, weights, local_rows, start, owned, share)
    else:
        from .plan import plan_head_share

        plan_head_share(x, candidates, weights, prepared, head, start, owned, share).run()
    return share
