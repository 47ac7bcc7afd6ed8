"""The transition table and the walk through it."""

from __future__ import annotations

import torch

from ..head_rows.form import StoredHead
from ..switch import use_kernels
from .naive import table_given, table_naive, walk_naive
from .parts import Draw, Given, HeadRows, Prepared, Proposal, TableWeights


def table_walk(
    before: torch.Tensor,
    receive: torch.Tensor,
    candidates: torch.Tensor,
    anchor: torch.Tensor,
    weights: TableWeights,
    head_rows: HeadRows,
    draw: Draw,
    proposal: Proposal,
    prepared: Prepared | None = None,
    head: StoredHead | None = None,
    given: Given | None = None,
) -> torch.Tensor:
    """Fill `proposal` for rows 1.. of `before` [N, w, H]; returns the table [N, R, K, K]. R = w - 1.

    receive [N, R, m], candidates [N, R, K], anchor [N]. Without `prepared` and a head the kernels can read, the naive
    form runs. given: read in place of the head.
    """
    n, rows, _ = candidates.shape
    if prepared is None or (head is None and given is None) or not use_kernels(before):
        x = before[:, 1:]
        if given is None:
            scores = table_naive(x, receive, candidates, anchor, weights, head_rows)
        else:
            scores = table_given(x, receive, candidates, anchor, weights, given)
        temperatures, greedy, uniforms = draw
        tokens, q = walk_naive(candidates, scores, temperatures[:n], greedy[:n], uniforms[:n, :rows])
        for buffer, found in zip(proposal, (tokens, candidates, q), strict=True):
            buffer[:n, :rows].copy_(found)
        return scores
    from .plan import plan_table_walk

    projected = (before @ weights.write)[:, 1:]  # anchors too: the rows of a product lie side by side
    launches, scores = plan_table_walk(
        before[:, 1:], receive, projected, candidates, anchor, weights, prepared, head, draw, proposal,
        given=given,
    )  # fmt: skip
    for launch in launches:
        launch.run()
    return scores
