"""What goes into table and walk, and what comes out; shapes as in `naive`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

HeadRows = Callable[[torch.Tensor], torch.Tensor]  # token ids [...] -> head rows [..., H]


class TableWeights(NamedTuple):
    """What is constant; shapes in `naive`."""

    write: torch.Tensor
    gram: torch.Tensor
    norm: torch.Tensor
    token_gate: torch.Tensor
    token_message: torch.Tensor
    eps: float


class Prepared(NamedTuple):
    """What the kernels read beside `TableWeights`, in the model's dtype."""

    gram: torch.Tensor  # [m, m]
    seen: torch.Tensor  # [V, m]: U = W_L^T (w * head[v])


class Given(NamedTuple):
    """What the table needs of the candidates' head rows, where it was computed elsewhere: with the head spread over
    ranks, the sum of `head_share` over them."""

    own: torch.Tensor  # [N, R, K] fp32: x . (w * head[c])
    seen: torch.Tensor  # [N, R, K, m] in the model's dtype: U of each candidate


class Proposal(NamedTuple):
    """Buffers the walk fills; the proposer's, longer than a batch needs."""

    tokens: torch.Tensor  # [>= N, >= R] int64
    candidates: torch.Tensor  # [>= N, >= R, K] int64
    q: torch.Tensor  # [>= N, >= R, K] fp32


class Draw(NamedTuple):
    """How to choose: see `walk_naive`."""

    temperatures: torch.Tensor  # [>= N] fp32
    greedy: torch.Tensor  # [>= N] bool
    uniforms: torch.Tensor  # [>= N, >= R] fp32
