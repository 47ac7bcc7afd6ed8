"""Tiles, grids and workspace of the table and the walk."""

from __future__ import annotations

import torch

from ..dependent import overlap
from ..head_rows.form import GIVEN, StoredHead
from ..launch import PROGRAMS, Launch, ceil_div, power_below, power_of_2, tile
from .parts import Draw, Given, Prepared, Proposal, TableWeights
from .table import table_sums
from .walk import MOST_PARTS, MOST_SLICES, table_walk


def plan_table_walk(
    x: torch.Tensor,
    receive: torch.Tensor,
    projected: torch.Tensor,
    candidates: torch.Tensor,
    anchor: torch.Tensor,
    weights: TableWeights,
    prepared: Prepared,
    head: StoredHead | None,
    draw: Draw,
    proposal: Proposal,
    wide: bool | None = None,
    dependent: bool | None = None,
    given: Given | None = None,
) -> tuple[list[Launch], torch.Tensor]:
    """The two launches and the scores [N, R, K, K] they will fill.

    x [N, R, H], receive [N, R, m], projected [N, R, m] = x W_L: any strides but contiguous in the last dimension;
    candidates [N, R, K] contiguous. wide: four rows a program; by default for a large batch. given: in place of head.
    """
    blocks, row_count, hidden = x.shape
    k, m, rows, device = candidates.shape[-1], receive.shape[-1], blocks * row_count, x.device
    assert x.stride(-1) == receive.stride(-1) == projected.stride(-1) == 1 and candidates.is_contiguous()
    assert weights.token_gate.numel() < 2**31, "the kernel addresses the tokens' tables with 32 bits"
    kp = max(16, power_of_2(k))
    wide = rows > PROGRAMS // 2 if wide is None else wide
    group = max(1, 64 // kp) if wide else 1  # rows a program: the Gram matrix is read once for all of them
    half = 2 if x.dtype == torch.float32 else 1
    bm, bk, bh = tile(m, 16, 64), 64 // half, tile(hidden, 16, 256)
    # one program a processor or more: a slice of the message space each while rows are few
    slices = 1 if wide else power_below(min(int(MOST_SLICES), ceil_div(m, bm), PROGRAMS // rows))
    parts = 1 if given else power_below(min(int(MOST_PARTS), 2 * PROGRAMS // rows, ceil_div(hidden, bh)))
    pairing = ceil_div(rows, group) * slices

    def empty(*shape: int) -> torch.Tensor:
        return torch.empty(*shape, dtype=torch.float32, device=device)

    sums = {
        "pair": empty(slices, rows, k, k), "linear": empty(slices, rows, k), "quadratic": empty(slices, rows, k),
        "own": empty(parts, rows, k), "squares": empty(parts, rows),
    }  # fmt: skip
    if given is None:
        assert head is not None, "a table needs the head or what was read of it"
        form, read, seen = head.constants(), head.arguments(), prepared.seen
    else:
        form, seen = {"FORM": GIVEN}, given.seen.reshape(rows * k, m)
        read = {"head": x, "scales": x, "scale": x, "head_stride": 0}  # stand-ins that nothing reads
        sums["own"] = given.own.reshape(parts, rows, k)
    messages = torch.empty(slices, rows, k, m, dtype=x.dtype, device=device)
    scores = empty(blocks, row_count, k, k)
    shape, counts = {"H": hidden, "K": k, "KP": kp}, {"slices": slices, "parts": parts}
    launches = [
        Launch(
            table_sums,
            (pairing + rows * parts,),
            {
                "x": x, "receive": receive, "projected": projected, "candidates": candidates,
                "anchor": anchor.contiguous(),
                "norm": weights.norm, "token_gate": weights.token_gate, "token_message": weights.token_message,
                "gram": prepared.gram, "seen": seen, **read,
                **sums, "messages": messages,
                "rows": rows, "row_count": row_count, "x_block": x.stride(0), "x_row": x.stride(1),
                "receive_block": receive.stride(0), "receive_row": receive.stride(1),
                "projected_block": projected.stride(0), "projected_row": projected.stride(1),
                "pairing": pairing, **counts,
            },
            {**shape, **form, "M": m, "GROUP": group, "BM": bm, "BK": bk, "BH": bh, **overlap(dependent)},
            warps=8 if wide else 4,
            stages=3,
        ),
        Launch(
            table_walk,
            (blocks,),
            {
                **sums, "candidates": candidates, "temperatures": draw.temperatures, "greedy": draw.greedy,
                "uniforms": draw.uniforms, "scores": scores, "tokens": proposal.tokens, "chosen": proposal.candidates,
                "q": proposal.q, "rows": rows, "row_count": row_count, "eps": weights.eps,
                "uniform_stride": draw.uniforms.stride(0), "token_stride": proposal.tokens.stride(0), **counts,
            },
            {**shape, "RP": power_of_2(row_count), "HALF": x.dtype == torch.bfloat16, **overlap(dependent)},
            warps=8 if row_count > 8 else 4,
            stages=1,
        ),
    ]  # fmt: skip
    return launches, scores
