"""One decision for the whole batch: how much of each proposal is accepted, and the token after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .accept import accept_greedy, accept_sampled, draw
from .filter import target_distribution
from .repair import repair_probabilities
from .seeded import seeded_choice


@dataclass
class Decision:
    """N requests, w verify rows."""

    accepted: torch.Tensor  # [N] int64 proposals accepted, 0 .. w-1
    bonus: torch.Tensor  # [N] int64 the target's token after them
    out_tokens: torch.Tensor  # [N, w] int64 accepted proposals, bonus, then zeros that nobody reads
    repaired: torch.Tensor | None = None  # [N*w] int8 rows whose probabilities were repaired (`repair.CAUSES`)

    @property
    def commit_lens(self) -> torch.Tensor:
        """Accepted length, bonus included. [N] int32"""
        return self.accepted.to(torch.int32) + 1


def decide(
    tokens: torch.Tensor,
    logits: torch.Tensor,
    sampling_info: Any,
    candidates: torch.Tensor,
    q: torch.Tensor,
    positions: torch.Tensor,
    max_top_k: int | None,
) -> Decision:
    """Greedy requests by argmax, sampled ones by rejection sampling, in one batch; seeded ones by their own choice.

    Args:
        tokens, positions: [N, w]; logits: [N*w, V] repaired and adjusted; candidates, q: [N, w-1, K].
            Width 1 is plain decode.
    """
    n, w = tokens.shape
    sampled = sampling_info is not None and not sampling_info.is_all_greedy
    seeded = sampled and sampling_info.sampling_seed is not None
    top1 = seeded_choice(logits, sampling_info, positions.flatten(), w) if seeded else logits.argmax(-1)
    accepted, bonus = accept_greedy(tokens, top1.view(n, w))
    repaired = None
    if sampled and not seeded:
        probs = target_distribution(logits, sampling_info, w, max_top_k)
        repaired = repair_probabilities(probs.flatten(0, 1), top1)
        uniforms = torch.rand(n, w, dtype=torch.float32, device=tokens.device)
        if w == 1:  # plain decode: nothing was proposed
            drawn = accepted, draw(probs[:, 0], uniforms[:, 0])
        else:
            drawn = accept_sampled(tokens, probs, candidates, q, uniforms[:, 1:], uniforms[:, 0])
        greedy = sampling_info.top_ks.view(-1) <= 1
        accepted = torch.where(greedy, accepted, drawn[0])
        bonus = torch.where(greedy, bonus, drawn[1])
    return Decision(accepted, bonus, commit_row(tokens, accepted, bonus), repaired)


def commit_row(tokens: torch.Tensor, accepted: torch.Tensor, bonus: torch.Tensor) -> torch.Tensor:
    """[N, w] tokens emitted by the round: proposals shifted left, the bonus at the boundary."""
    out = torch.cat([tokens[:, 1:], torch.zeros_like(tokens[:, :1])], 1)
    return out.scatter(1, accepted[:, None], bonus[:, None])
