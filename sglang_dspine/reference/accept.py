"""Accept rules: which proposals stand, and the one token the target adds.

Accepted length counts the bonus: 1 (all proposals refused) to W (all stand).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .walk import draw


@dataclass(frozen=True)
class Accepted:
    tokens: Tensor  # int64 [N, W], -1 past the accepted length
    lengths: Tensor  # int64 [N], bonus included


def greedy_accept(proposals: Tensor, target: Tensor) -> Accepted:
    """Proposals stand while they are the target's own choice; then the target's choice is taken.

    proposals [N, W-1], target [N, W]: the target's top-1 after each verified row.
    """
    stands = (proposals == target[:, :-1]).long().cumprod(-1)  # [N, W-1]
    return emit(proposals, stands.sum(-1), target)


def rejection_accept(proposals: Tensor, candidates: Tensor, q: Tensor, p: Tensor, uniforms: Tensor) -> Accepted:
    """Rejection sampling: the emitted tokens have exactly the target's law, whatever q is.

    proposals [N, W-1] drawn from q [N, W-1, K] over ids candidates [N, W-1, K]; p [N, W, V] is the target's
    law after each verified row; uniforms [N, W] in [0, 1): one a proposal, the last for the token added.
    Source: Leviathan et al. 2023, section 2.3; here q is zero outside the candidates.
    """
    p = p.double()
    dense = torch.zeros_like(p[:, :-1]).scatter(-1, candidates, q.double())  # q over the vocabulary
    of_target = p[:, :-1].gather(-1, proposals.unsqueeze(-1)).squeeze(-1)
    of_draft = dense.gather(-1, proposals.unsqueeze(-1)).squeeze(-1)
    stands = (uniforms[:, :-1] * of_draft < of_target).long().cumprod(-1)  # [N, W-1]
    count = stands.sum(-1)  # [N]

    laws = torch.cat((residual(p[:, :-1], dense), p[:, -1:]), dim=1)  # [N, W, V], the bonus row is p itself
    drawn = draw(laws[torch.arange(len(p)), count], uniforms[:, -1])  # [N]
    return emit(proposals, count, drawn.unsqueeze(-1).expand(-1, p.shape[1]))


def residual(p: Tensor, q: Tensor) -> Tensor:
    """Law of the token after a refusal, max(p - q, 0) rescaled: [..., V], [..., V] -> [..., V].

    Where p = q a refusal has probability zero and the residual no mass; p keeps it a law.
    """
    excess = (p - q).clamp(min=0)
    mass = excess.sum(-1, keepdim=True)
    return torch.where(mass > 0, excess / torch.where(mass > 0, mass, 1.0), p)


def emit(proposals: Tensor, count: Tensor, added: Tensor) -> Accepted:
    """The first `count` [N] proposals [N, W-1], then the token of `added` [N, W] at that row."""
    place = torch.arange(added.shape[1])
    extended = torch.cat((proposals, added[:, -1:]), dim=1)
    tokens = torch.where(place < count[:, None], extended, added)
    return Accepted(tokens.masked_fill(place > count[:, None], -1), count + 1)
