"""Transition table: how well each candidate of a row follows each candidate of the row before."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .arithmetic import DEFAULT, Arithmetic
from .bridge import Bridge, bridge_write, code_features, features


@dataclass(frozen=True)
class Refiner:
    """What refining a row needs: the last layer's part of the bridge, the final norm, the target's head."""

    bridge: Bridge
    norm: Tensor  # [H] weight of the final norm
    head: Tensor  # [>= V, H] rows of the target's lm_head, never quantised
    eps: float


def predecessor_ids(candidates: Tensor, anchor: Tensor) -> Tensor:
    """Which tokens may stand before each row: candidates [N, R, K], anchor [N] -> ids [N, R, K].

    Row 1 has one possible predecessor, the anchor, K times: a table whose rows are alike.
    """
    first = anchor[:, None, None].expand(-1, 1, candidates.shape[-1])
    return torch.cat((first, candidates[:, :-1]), dim=1)


def refined_states(x: Tensor, previous: Tensor, refiner: Refiner, arithmetic: Arithmetic = DEFAULT) -> Tensor:
    """Replay the last injection with a known predecessor, then the final norm.

    x [..., H]: last layer's residual stream before its injection; previous: int64 ids [..., K] of tokens
    that may stand before that row -> y [..., K, H].
    """
    bridge = refiner.bridge
    x = x.unsqueeze(-2)  # [..., 1, H]
    f = features(x, bridge.readouts[-1], arithmetic)
    p = code_features(previous, bridge.codes)  # [..., K, r]
    y = bridge_write(x, f, p, bridge.writes[-1], bridge, arithmetic)
    return arithmetic.rms_norm(y, refiner.norm, refiner.eps)


def transition_table_direct(
    x: Tensor, candidates: Tensor, anchor: Tensor, refiner: Refiner, arithmetic: Arithmetic = DEFAULT
) -> Tensor:
    """S[n, i, c, j]: score of candidate j of row i after candidate c of row i-1.

    x [N, R, H] rows 1..R before the last injection, candidates [N, R, K], anchor [N] -> [N, R, K, K] in
    `arithmetic.wide`. The row's unary score is not added: refining replaces it.
    """
    y = refined_states(x, predecessor_ids(candidates, anchor), refiner, arithmetic)  # [N, R, K, H]
    return arithmetic.product(y, refiner.head[candidates]).to(arithmetic.wide)


def refine_serially(
    x: Tensor, candidates: Tensor, anchor: Tensor, refiner: Refiner, arithmetic: Arithmetic = DEFAULT
) -> tuple[Tensor, Tensor]:
    """The definition the table parallelises: row by row, refine with the token just chosen, score, choose.

    Same inputs as the table -> (tokens [N, R], scores [N, R, K] of the candidates along the chosen path).
    """
    previous, tokens, scores = anchor, [], []
    for row in range(candidates.shape[1]):
        y = refined_states(x[:, row], previous[:, None], refiner, arithmetic)  # [N, 1, H]
        ids = candidates[:, row]  # [N, K]
        scores.append(arithmetic.product(y, refiner.head[ids])[:, 0].to(arithmetic.wide))
        previous = ids.gather(1, scores[-1].argmax(-1, keepdim=True))[:, 0]
        tokens.append(previous)
    return torch.stack(tokens, 1), torch.stack(scores, 1)
