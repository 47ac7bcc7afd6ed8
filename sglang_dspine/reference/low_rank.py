"""The transition table computed in the m dimensions of a message; refined states of H numbers never exist.

A refined state is x + s W z with z of m numbers, so its dot with a head row and its length both expand into
terms of size m once the head and W itself have been seen through Wᵀ (done at load):

    y . (w * head[v]) = x . (w * head[v]) + s z . (Wᵀ (w * head[v]))
    |y|^2             = |x|^2 + 2 s (Wᵀ x) . z + s^2 zᵀ (WᵀW) z
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .arithmetic import DEFAULT, Arithmetic
from .bridge import code_features, features
from .table import Refiner, predecessor_ids


@dataclass(frozen=True)
class LowRank:
    """What is prepared at load. V rows each; `message_of` and `gate_of` together weigh what the codes did."""

    message_of: Tensor  # M sqrt(r) code[v]       [V, m]
    gate_of: Tensor  # G_pred sqrt(r) code[v]     [V, m]
    head_seen: Tensor  # U = Wᵀ (w * head[v])      [V, m]
    gram: Tensor  # WᵀW                            [m, m]
    write: Tensor  # W of the last layer           [H, m]
    norm: Tensor  # w of the final norm            [H]
    head: Tensor  # the target's own rows          [>= V, H]
    receiver_gate: Tensor  # G_recv                [m, r]
    bias: Tensor  # b                              [m]
    readout: Tensor  # R of the last layer         [r, H]
    eps: float

    @classmethod
    def prepare(cls, refiner: Refiner, dtype: torch.dtype | None = None, arithmetic: Arithmetic = DEFAULT) -> LowRank:
        """Products are taken in `arithmetic.wide` and stored in `dtype` (that of the weights by default)."""
        bridge, wide = refiner.bridge, arithmetic.wide
        dtype = dtype or bridge.codes.dtype
        codes = code_features(torch.arange(bridge.codes.shape[0]), bridge.codes.to(wide))
        write = bridge.writes[-1].to(wide)
        weighted_head = refiner.norm.to(wide) * refiner.head.to(wide)
        return cls(
            message_of=arithmetic.product(codes, bridge.message.to(wide)).to(dtype),
            gate_of=arithmetic.product(codes, bridge.predecessor_gate.to(wide)).to(dtype),
            head_seen=arithmetic.product(weighted_head, write.mT).to(dtype),
            gram=arithmetic.product(write.mT, write.mT).to(wide),  # m·m numbers: no reason to round them
            write=bridge.writes[-1],
            norm=refiner.norm,
            head=refiner.head,
            receiver_gate=bridge.receiver_gate,
            bias=bridge.bias,
            readout=bridge.readouts[-1],
            eps=refiner.eps,
        )


def transition_table_low_rank(
    x: Tensor, candidates: Tensor, anchor: Tensor, low_rank: LowRank, arithmetic: Arithmetic = DEFAULT
) -> Tensor:
    """Same inputs and result as `transition_table_direct`: [N, R, H], [N, R, K], [N] -> [N, R, K, K].

    Everything after the feature is taken in `arithmetic.wide`.
    """
    wide, size = arithmetic.wide, x.shape[-1]
    previous = predecessor_ids(candidates, anchor)
    f = features(x, low_rank.readout, arithmetic)  # [N, R, r]
    x = x.to(wide)
    square = arithmetic.sum(x.square())[..., None]  # |x|^2 [N, R, 1]
    s = (square / size).sqrt()

    receiver = arithmetic.product(f.to(wide), low_rank.receiver_gate.to(wide)).unsqueeze(2)  # [N, R, 1, m]
    gate = arithmetic.sigmoid(receiver + low_rank.gate_of[previous].to(wide) + low_rank.bias.to(wide))
    z = gate * low_rank.message_of[previous].to(wide)  # [N, R, K, m]

    t = arithmetic.product(x, low_rank.write.to(wide).mT)  # Wᵀx [N, R, m]
    linear = arithmetic.sum(t.unsqueeze(2) * z)  # [N, R, K]
    quadratic = arithmetic.sum(arithmetic.product(z, low_rank.gram) * z)
    length = square + 2 * s * linear + s.square() * quadratic  # |y|^2, below zero by rounding only
    norm = torch.rsqrt(length.clamp(min=0) / size + low_rank.eps)

    weighted = (x * low_rank.norm.to(wide)).unsqueeze(2)  # w on this side: the head's rows stay unrounded
    unary = arithmetic.product(weighted, low_rank.head[candidates].to(wide))  # [N, R, 1, K]
    pair = arithmetic.product(z, low_rank.head_seen[candidates].to(wide))  # [N, R, K, K]
    return (unary + s.unsqueeze(-1) * pair) * norm.unsqueeze(-1)
