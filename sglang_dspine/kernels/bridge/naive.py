"""The bridge of one layer in plain torch.

| name | shape | at 27B | meaning |
|---|---|---|---|
| h | [N, w, H] | [1..32, 8..16, 5120] | residual stream after the layer, model dtype |
| readout | [r, H] | [1024, 5120] | R_l |
| features_to_message | [3m, r] | [1536, 1024] | G_recv, G_pred, M, one above the other |
| bias | [m] | [512] | b |
| write | [H, m] | [5120, 512] | W_l |
| token_gate, token_message | [V, m] | [248320, 512] | G_pred sqrt(r) code[v], M sqrt(r) code[v] |
| anchor | [N] | | token ids of row 0 |
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

SMALLEST = 1e-12  # a shorter feature is not stretched to unit length; sqrt(r) / SMALLEST still is a float32


class LayerBridge(NamedTuple):
    """Weights that one layer's injection reads; shapes above."""

    readout: torch.Tensor
    features_to_message: torch.Tensor
    bias: torch.Tensor
    write: torch.Tensor
    token_gate: torch.Tensor
    token_message: torch.Tensor


class Injected(NamedTuple):
    """What an injection leaves."""

    before: torch.Tensor  # [N, w, H] residual stream it read
    after: torch.Tensor  # [N, w, H] with the message added; row 0 as it was
    receive: torch.Tensor  # [N, w-1, m] G_recv f_i + b of rows 1..: the last layer's table needs it


def features(h: torch.Tensor, readout: torch.Tensor) -> torch.Tensor:
    """f = sqrt(r) R h / ||R h||, normalised in fp32, finite for a zero vector. [N, w, H] -> [N, w, r]"""
    read = (h @ readout.T).float()
    norm = read.norm(dim=-1, keepdim=True).clamp_min(SMALLEST)
    return (read * (math.sqrt(readout.shape[0]) / norm)).to(h.dtype)


def row_scale(h: torch.Tensor) -> torch.Tensor:
    """||h|| / sqrt(H) of each row, in fp32, cast to h's dtype. [..., H] -> [..., 1]"""
    return (h.float().norm(dim=-1, keepdim=True) / math.sqrt(h.shape[-1])).to(h.dtype)


def inject_naive(
    residual: torch.Tensor, delta: torch.Tensor | None, anchor: torch.Tensor, weights: LayerBridge
) -> Injected:
    """Inject into rows 1.. of h = residual + delta (delta None: h = residual)."""
    h = residual if delta is None else residual + delta
    m = weights.bias.shape[0]
    projected = features(h, weights.readout) @ weights.features_to_message.T  # [N, w, 3m]
    receive, gate, message = projected[:, 1:, :m], projected[:, :-1, m : 2 * m], projected[:, :-1, 2 * m :]
    # row 1 follows the anchor, whose predecessor features are its token's code, not its own state
    gate = torch.cat([weights.token_gate[anchor][:, None], gate[:, 1:]], 1)
    message = torch.cat([weights.token_message[anchor][:, None], message[:, 1:]], 1)
    receive = receive + weights.bias
    write = (torch.sigmoid(receive + gate) * message) @ weights.write.T  # [N, w-1, H]
    rows = h[:, 1:] + row_scale(h[:, 1:]) * write
    return Injected(h, torch.cat([h[:, :1], rows], 1), receive)
