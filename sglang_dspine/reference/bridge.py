"""Adjacent injection: after every layer each row is told what its predecessor row holds.

All rows of a layer are written at once, from features taken before the layer's own writes; the chain of
predecessors is followed through depth, not through rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from .arithmetic import DEFAULT, Arithmetic


@dataclass(frozen=True)
class Bridge:
    """Weights of the injection. All but readouts and writes are shared by the layers."""

    readouts: tuple[Tensor, ...]  # R_l [r, H], one a layer
    writes: tuple[Tensor, ...]  # W_l [H, m], one a layer
    message: Tensor  # M [m, r]
    receiver_gate: Tensor  # G_recv [m, r]
    predecessor_gate: Tensor  # G_pred [m, r]
    bias: Tensor  # b [m]
    codes: Tensor  # [V, r], unit rows, fixed

    @classmethod
    def from_weights(cls, weights: Mapping[str, Tensor], num_layers: int) -> Bridge:
        return cls(
            readouts=tuple(weights[f"injection.readouts.{i}.weight"] for i in range(num_layers)),
            writes=tuple(weights[f"injection.writes.{i}.weight"] for i in range(num_layers)),
            message=weights["injection.message.weight"],
            receiver_gate=weights["injection.receiver_gate.weight"],
            predecessor_gate=weights["injection.predecessor_gate.weight"],
            bias=weights["injection.bias"],
            codes=weights["transfer_codes"],
        )


def features(h: Tensor, readout: Tensor, arithmetic: Arithmetic = DEFAULT) -> Tensor:
    """f = sqrt(r) R h / |R h|, zero for a zero state: [..., B, H], [r, H] -> [..., B, r] in h's dtype."""
    projected = arithmetic.product(h, readout).to(arithmetic.wide)
    unit = projected / arithmetic.length(projected).clamp(min=1e-12)
    return (math.sqrt(readout.shape[0]) * unit).to(h.dtype)


def code_features(ids: Tensor, codes: Tensor) -> Tensor:
    """What a known token looks like to its successor, sqrt(r) code[id]: [...], [V, r] -> [..., r]."""
    return math.sqrt(codes.shape[-1]) * codes[ids]


def predecessors(f: Tensor, anchor: Tensor, codes: Tensor) -> Tensor:
    """p of rows 1..B-1: f [N, B, r], anchor ids [N] -> [N, B-1, r].

    Row 1 follows a token that is known, hence its code; row i >= 2 follows row i-1's feature.
    """
    return torch.cat((code_features(anchor, codes).unsqueeze(1), f[:, 1:-1]), dim=1)


def bridge_write(
    h: Tensor, f: Tensor, p: Tensor, write: Tensor, bridge: Bridge, arithmetic: Arithmetic = DEFAULT
) -> Tensor:
    """h + |h| / sqrt(H) · W (sigmoid(G_recv f + G_pred p + b) * M p).

    h [..., H], f [..., r] of the receiving rows, p [..., r] of their predecessors (leading axes broadcast),
    write W [H, m] -> [..., H].
    """
    gate = arithmetic.product(f, bridge.receiver_gate) + arithmetic.product(p, bridge.predecessor_gate)
    message = arithmetic.sigmoid(gate + bridge.bias) * arithmetic.product(p, bridge.message)  # [..., m]
    scale = (arithmetic.length(h) / math.sqrt(h.shape[-1])).to(h.dtype)  # [..., 1]
    return h + scale * arithmetic.product(message, write)


def inject(h: Tensor, anchor: Tensor, layer: int, bridge: Bridge, arithmetic: Arithmetic = DEFAULT) -> Tensor:
    """Write every row but the anchor's: residual stream h [N, B, H], anchor ids [N] -> [N, B, H]."""
    f = features(h, bridge.readouts[layer], arithmetic)
    p = predecessors(f, anchor, bridge.codes)
    written = bridge_write(h[:, 1:], f[:, 1:], p, bridge.writes[layer], bridge, arithmetic)
    return torch.cat((h[:, :1], written), dim=1)
