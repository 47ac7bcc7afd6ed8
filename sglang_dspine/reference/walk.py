"""Paths through the transition table: one token per row, each scored after the token just chosen."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Walk:
    """tokens are ids; choices are their places among the K candidates of the row."""

    tokens: Tensor  # int64 [N, R]
    choices: Tensor  # int64 [N, R]
    q: Tensor  # float64 [N, R, K]: the distribution each choice was drawn from, over the row's candidates


def greedy_walk(scores: Tensor, candidates: Tensor) -> Walk:
    """Best after best, ties to the first place: scores [N, R, K, K], candidates [N, R, K]."""
    temperature = scores.new_zeros(scores.shape[0])
    return sampled_walk(scores, candidates, temperature, scores.new_zeros(scores.shape[:2]))


def sampled_walk(scores: Tensor, candidates: Tensor, temperature: Tensor, uniforms: Tensor) -> Walk:
    """Draw j_i from softmax(S_i[j_{i-1}, .] / T), row after row.

    scores [N, R, K, K], candidates [N, R, K], temperature [N] (0: greedy), uniforms [N, R] in [0, 1).
    q is float64 whatever the scores are, so that the verifier divides by the law really drawn from.
    """
    place = torch.zeros(scores.shape[0], dtype=torch.int64)  # every row of the first table is the anchor's
    choices, laws = [], []
    for row in range(scores.shape[1]):
        after = scores[torch.arange(scores.shape[0]), row, place]  # [N, K]
        laws.append(conditional(after, temperature))
        place = draw(laws[-1], uniforms[:, row])
        choices.append(place)
    chosen = torch.stack(choices, 1)
    return Walk(candidates.gather(-1, chosen.unsqueeze(-1)).squeeze(-1), chosen, torch.stack(laws, 1))


def conditional(scores: Tensor, temperature: Tensor) -> Tensor:
    """softmax(scores / T), all mass on the first best where T = 0: [N, K], [N] -> float64 [N, K]."""
    scores, temperature = scores.double(), temperature.double().unsqueeze(-1)
    best = F.one_hot(scores.argmax(-1), scores.shape[-1]).double()
    warm = torch.softmax(scores / torch.where(temperature > 0, temperature, 1.0), dim=-1)
    return torch.where(temperature > 0, warm, best)


def draw(law: Tensor, uniform: Tensor) -> Tensor:
    """Invert the cumulative law: [N, n], uniforms [N] in [0, 1) -> places [N], never one of mass 0."""
    edges = law.double().cumsum(-1)
    target = uniform.double().unsqueeze(-1) * edges[:, -1:]  # a rounded sum of 0.999.. must not overrun
    return (edges <= target).sum(-1)
