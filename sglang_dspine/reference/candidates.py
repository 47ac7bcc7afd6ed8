"""The K best tokens of each row by the target's own head, before any predecessor is known."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sglang_dspine.errors import DSpineError

from .arithmetic import DEFAULT, Arithmetic


def top_candidates(
    hidden: Tensor, head: Tensor, top_k: int, vocab_size: int, arithmetic: Arithmetic = DEFAULT
) -> Tensor:
    """hidden [..., R, H] after the final norm, head [>= V, H] -> int64 ids [..., R, K], best first.

    Equal scores: the lowest id first. Head rows from `vocab_size` on are padding and never win.
    """
    if not 1 <= top_k <= vocab_size <= head.shape[0]:
        raise DSpineError(
            f"candidates: expected 1 <= top_k <= vocab_size <= rows of the head, "
            f"found {top_k}, {vocab_size}, {head.shape[0]}"
        )
    scores = arithmetic.product(hidden, head)  # [..., R, >= V]
    scores[..., vocab_size:] = -math.inf
    return torch.sort(scores, dim=-1, descending=True, stable=True).indices[..., :top_k]
