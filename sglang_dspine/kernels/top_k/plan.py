"""Tiles and grids of the two stages."""

from __future__ import annotations

import torch

from ..dependent import overlap
from ..launch import Launch, ceil_div, power_of_2
from .kernel import best_of_groups, group_maxima

MOST_GROUPS = 2048  # of one row: what the second stage holds in registers


def plan_top_k(
    logits: torch.Tensor, vocab: int, k: int, dependent: bool | None = None
) -> tuple[list[Launch], torch.Tensor, torch.Tensor]:
    """Launches for logits [T, >= V] whose rows are contiguous, and the values and ids [T, K] they will fill."""
    assert logits.stride(1) == 1 and 1 <= k <= vocab <= logits.shape[1]
    rows, device = logits.shape[0], logits.device
    group = max(64, power_of_2(ceil_div(vocab, MOST_GROUPS)))
    groups = ceil_div(vocab, group)
    tile = min(power_of_2(groups), 64)
    maxima = torch.empty(rows, groups, dtype=torch.int32, device=device)
    values = torch.empty(rows, k, dtype=logits.dtype, device=device)
    ids = torch.empty(rows, k, dtype=torch.int64, device=device)
    shared = {"logits": logits, "maxima": maxima}
    sizes = {"stride": logits.stride(0), "vocab": vocab, "groups": groups}
    # the second stage picks K groups even where there are fewer: places that hold nothing rank last
    padded = max(power_of_2(groups), power_of_2(k))
    launches = [
        Launch(
            group_maxima,
            (rows, ceil_div(groups, tile)),
            shared | sizes,
            {"GROUP": group, "TILE": tile, **overlap(dependent)},
            4,
            1,
        ),
        Launch(
            best_of_groups,
            (rows,),
            shared | {"values": values, "ids": ids} | sizes,
            {"K": k, "KP": power_of_2(k), "GROUP": group, "GROUPS": padded, **overlap(dependent)},
            8,
            1,
        ),
    ]
    return launches, values, ids
