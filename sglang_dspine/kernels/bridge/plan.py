"""Tiles, grids and workspace of the bridge's three launches."""

from __future__ import annotations

import functools

import torch

from ..launch import PROGRAMS, Launch, ceil_div, power_below, tile
from .kernel import bridge_message, bridge_read, bridge_write
from .naive import SMALLEST, Injected, LayerBridge


@functools.lru_cache(maxsize=8)
def arrivals(device: torch.device) -> torch.Tensor:
    """Counters of `bridge_read`, zero between launches. Made at load, not inside a graph's memory."""
    return torch.zeros(8192, dtype=torch.int32, device=device)


def plan_injection(
    residual: torch.Tensor, delta: torch.Tensor | None, anchor: torch.Tensor, weights: LayerBridge
) -> tuple[list[Launch], Injected]:
    """The launches of `inject_naive`'s computation, in order, and the tensors they will fill."""
    blocks, width, hidden = residual.shape
    rows, rank, m = blocks * width, weights.readout.shape[0], weights.bias.shape[0]
    device, dtype = residual.device, residual.dtype
    residual, anchor = residual.contiguous(), anchor.contiguous()
    delta = delta.contiguous() if delta is not None else None
    half = 2 if dtype == torch.float32 else 1  # twice the bytes: half the depth of a tile
    bt = tile(rows, 16, 64)
    deep = (128 if bt < 64 else 64) // half
    told, out = (16 if rows <= 256 else 32), (32 if rows <= 128 else 128)  # columns a program of the other two
    bn = min(32 if rows <= 64 else 64, tile(rank, 16, 64))
    split = power_below(min(8, PROGRAMS // (ceil_div(rows, bt) * ceil_div(rank, bn)), ceil_div(hidden, deep)))

    def empty(*shape: int, of: torch.dtype = dtype) -> torch.Tensor:
        return torch.empty(*shape, dtype=of, device=device)

    before = residual if delta is None else empty(blocks, width, hidden)
    features, message = empty(rows, rank), empty(rows, m)
    partial = empty(split if split > 1 else 0, rows, rank, of=torch.float32)
    squares, receive = empty(split, rows, of=torch.float32), empty(blocks, width, m, of=torch.float32)
    after = empty(blocks, width, hidden)
    launches = [
        Launch(
            bridge_read,
            (ceil_div(rows, bt), ceil_div(rank, bn), split),
            {
                "residual": residual, "delta": residual if delta is None else delta, "readout": weights.readout,
                "before": before, "read": features, "partial": partial, "squares": squares,
                "arrivals": arrivals(device), "rows": rows, "split": split,
            },
            {
                "H": hidden, "RANK": rank, "ADD": delta is not None,
                "BT": bt, "BN": bn, "BK": deep,
            },
            warps=4,
            stages=4 if bt < 64 else 3,
        ),
        Launch(
            bridge_message,
            (ceil_div(rows, bt), ceil_div(m, told)),
            {
                "read": features, "features_to_message": weights.features_to_message, "bias": weights.bias,
                "token_gate": weights.token_gate, "token_message": weights.token_message, "anchor": anchor,
                "receive": receive, "message": message, "rows": rows, "width": width, "smallest": SMALLEST,
            },
            {"RANK": rank, "M": m, "BT": bt, "BM": told, "BK": deep},
            warps=4,
            stages=3,
        ),
        Launch(
            bridge_write,
            (ceil_div(rows, bt), ceil_div(hidden, out)),
            {
                "before": before, "message": message, "write": weights.write, "squares": squares, "after": after,
                "rows": rows, "width": width, "split": split,
            },
            {"H": hidden, "M": m, "BT": bt, "BN": out, "BK": deep},
            warps=4,
            stages=3,
        ),
    ]  # fmt: skip
    return launches, Injected(before, after, receive[:, 1:])
