"""Grids and workspace of the bridge's launches."""

from __future__ import annotations

import functools

import torch

from ..dependent import overlap
from ..launch import Launch, Product, ceil_div, tile
from .kernel import bridge_message, bridge_read, bridge_sum, bridge_write
from .naive import SMALLEST, Injected, LayerBridge
from .tiles import Tiles, tiles_for

FEW_ROWS = 64  # from here on the read-out is left to the vendor's product, after a launch that sums and measures rows


@functools.lru_cache(maxsize=8)
def arrivals(device: torch.device) -> torch.Tensor:
    """Counters of `bridge_read`, zero between launches. Made at load, not inside a graph's memory."""
    return torch.zeros(8192, dtype=torch.int32, device=device)


def plan_injection(
    residual: torch.Tensor,
    delta: torch.Tensor | None,
    anchor: torch.Tensor,
    weights: LayerBridge,
    few: bool | None = None,
    dependent: bool | None = None,
    tiles: Tiles | None = None,
) -> tuple[list[Launch | Product], Injected]:
    """The launches of `inject_naive`'s computation, in order, and the tensors they will fill.

    few: by default, up to FEW_ROWS. dependent: overlap the launches (`kernels/dependent.py`). tiles: by the rows.
    """
    blocks, width, hidden = residual.shape
    rows, rank, m = blocks * width, weights.readout.shape[0], weights.bias.shape[0]
    few = rows <= FEW_ROWS if few is None else few
    residual, anchor = residual.contiguous(), anchor.contiguous()
    delta = delta.contiguous() if delta is not None else None
    t = tiles or tiles_for(rows, hidden, rank, few, residual.dtype == torch.float32)
    split = t.parts

    def empty(*shape: int, of: torch.dtype = residual.dtype) -> torch.Tensor:
        return torch.empty(*shape, dtype=of, device=residual.device)

    before = residual if delta is None else empty(blocks, width, hidden)
    features, message = empty(rows, rank), empty(rows, m)
    squares, receive = empty(split, rows, of=torch.float32), empty(blocks, width, m, of=torch.float32)
    after = empty(blocks, width, hidden)
    stream = {
        "residual": residual, "delta": residual if delta is None else delta, "before": before, "squares": squares,
    }  # fmt: skip
    add = {"H": hidden, "ADD": delta is not None}
    first: list[Launch | Product]
    if few:
        workspace = {
            "partial": empty(split if split > 1 else 0, rows, rank, of=torch.float32),
            "arrivals": arrivals(residual.device),
        }
        first = [
            Launch(
                bridge_read,
                (ceil_div(rows, t.rows), ceil_div(rank, t.read), split),
                {**stream, **workspace, "readout": weights.readout, "read": features, "rows": rows, "split": split},
                {**add, "RANK": rank, "BT": t.rows, "BN": t.read, "BK": t.depth, **overlap(dependent)},
                warps=t.read_warps,
                stages=t.read_stages,
            )
        ]
    else:
        first = [
            Launch(bridge_sum, (rows,), stream, {**add, "BH": tile(hidden, 16, 1024)}, warps=4, stages=1),
            Product(before.view(rows, hidden), weights.readout, features),
        ]
    then = [
        Launch(
            bridge_message,
            (ceil_div(rows, t.rows), ceil_div(m, t.message)),
            {
                "read": features, "features_to_message": weights.features_to_message, "bias": weights.bias,
                "token_gate": weights.token_gate, "token_message": weights.token_message, "anchor": anchor,
                "receive": receive, "message": message, "rows": rows, "width": width, "smallest": SMALLEST,
            },
            {"RANK": rank, "M": m, "BT": t.rows, "BM": t.message, "BK": t.depth, **overlap(dependent)},
            warps=t.message_warps,
            stages=t.message_stages,
        ),
        Launch(
            bridge_write,
            (ceil_div(rows, t.rows), ceil_div(hidden, t.write)),
            {
                "before": before, "message": message, "write": weights.write, "squares": squares, "after": after,
                "rows": rows, "width": width, "split": split,
            },
            {"H": hidden, "M": m, "BT": t.rows, "BN": t.write, "BK": t.depth, **overlap(dependent)},
            warps=t.write_warps,
            stages=t.write_stages,
        ),
    ]  # fmt: skip
    return [*first, *then], Injected(before, after, receive[:, 1:])
