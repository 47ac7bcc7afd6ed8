"""The accept rule: the longest prefix of a proposal that the target itself would have emitted, and one token more.

Shapes: N requests, w verify width (anchor and w-1 proposals), V vocabulary, K candidates. Row i of the target's logits
follows block token i, so it judges proposal i+1; the row of the last accepted token yields the bonus.
"""

from __future__ import annotations

import torch


def accept_greedy(block: torch.Tensor, target_top1: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Accept while each proposal equals the target's own choice.

    Args:
        block: [N, w] anchor and proposals.
        target_top1: [N, w] the target's best token after each of them.
    Returns:
        accepted proposals [N] (0 .. w-1) and the bonus token [N].
    """
    hits = (block[:, 1:] == target_top1[:, :-1]).int()
    accepted = hits.cumprod(1).sum(1)
    return accepted, target_top1.gather(1, accepted[:, None])[:, 0]


def accept_sampled(
    block: torch.Tensor,
    target_probs: torch.Tensor,
    candidates: torch.Tensor,
    q: torch.Tensor,
    uniforms: torch.Tensor,
    bonus_uniforms: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Speculative rejection sampling with the draft's own conditional q (Leviathan et al. 2023, algorithm 1).

    Proposal d is kept with probability min(1, p(d)/q(d)); at the first rejection the token comes from
    max(0, p - q) renormalised, after the last proposal from p. The output has the law of p whatever q is, as long as
    q is what d was drawn from.

    Args:
        block: [N, w]; target_probs: [N, w, V] fp32.
        candidates, q: [N, w-1, K]; q sums to one and q > 0 at the drawn token.
        uniforms: [N, w-1] and bonus_uniforms: [N], in [0, 1).
    Returns:
        accepted proposals [N] and the bonus token [N].
    """
    n, w = block.shape
    drawn = block[:, 1:]  # [N, w-1]
    p_drawn = target_probs[:, :-1].gather(-1, drawn[..., None])[..., 0]
    q_drawn = (q * (candidates == drawn[..., None])).sum(-1)
    keep = uniforms * q_drawn < p_drawn  # u < p/q without a division; p = 0 never accepts
    accepted = keep.int().cumprod(1).sum(1)
    last = target_probs[torch.arange(n, device=block.device), accepted]  # [N, V] fresh copy
    rejected = accepted < w - 1
    row = accepted.clamp_max(w - 2)[:, None, None].expand(n, 1, q.shape[-1])
    q_last = torch.where(rejected[:, None], q.gather(1, row)[:, 0], 0.0)
    residual = last.scatter_add(1, candidates.gather(1, row)[:, 0], -q_last.to(last.dtype)).clamp_min_(0)
    # p equal to q to the last bit leaves nothing over; any token of p is then as good
    weights = torch.where(residual.sum(-1, keepdim=True) > 0, residual, last)
    return accepted, draw(weights, bonus_uniforms)


def draw(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Inverse-CDF draw; an index of weight zero is never returned. [N, V] >= 0, [N] -> [N]"""
    cumulated = weights.double().cumsum(-1)
    scaled = uniforms.double()[:, None] * cumulated[:, -1:]
    index = (scaled >= cumulated).sum(-1)
    return index.clamp_max(weights.shape[-1] - 1)
