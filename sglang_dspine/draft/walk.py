"""Pick one path through the transition table, greedy or sampled, all requests of a batch at once."""

from __future__ import annotations

import torch


def walk(
    candidates: torch.Tensor,
    scores: torch.Tensor,
    temperatures: torch.Tensor,
    greedy: torch.Tensor,
    uniforms: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Walk from row 1 (index 0) down.

    Args:
        candidates: [N, R, K] token ids.
        scores: [N, R, K, K] fp32, predecessor by candidate; all K rows alike at index 0.
        temperatures: [N] fp32 > 0.
        greedy: [N] bool; such a request takes the argmax and its q is the point mass there.
        uniforms: [N, R] in [0, 1), one draw a row.
    Returns:
        tokens [N, R] int64, and q [N, R, K] fp32: exactly the distribution each token was drawn from.
    """
    n, rows, k = candidates.shape
    best = scores.argmax(-1)  # [N, R, K] choice for every predecessor
    probs = torch.softmax(scores / temperatures.view(n, 1, 1, 1), -1)
    drawn = _inverse_cdf(probs, uniforms[:, :, None].expand(n, rows, k))
    choice = torch.where(greedy.view(n, 1, 1), best, drawn)
    index = choice[:, 0, 0]
    path, previous = [index], [torch.zeros_like(index)]
    for row in range(1, rows):
        previous.append(index)
        index = choice[:, row].gather(-1, index[:, None])[:, 0]
        path.append(index)
    chosen, came_from = torch.stack(path, 1), torch.stack(previous, 1)  # [N, R]
    tokens = candidates.gather(-1, chosen[..., None])[..., 0]
    q = probs.gather(2, came_from[:, :, None, None].expand(n, rows, 1, k))[:, :, 0]
    point = torch.nn.functional.one_hot(chosen, k).to(q.dtype)
    return tokens, torch.where(greedy.view(n, 1, 1), point, q)


def _inverse_cdf(probs: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """First index whose cumulated probability exceeds u. The draw is scaled to the float sum, so that rounding of the
    sum can never select an index of probability zero. [..., K], [...] -> [...]"""
    cumulated = probs.cumsum(-1)
    scaled = uniforms[..., None] * cumulated[..., -1:]
    return (scaled >= cumulated).sum(-1).clamp_max(probs.shape[-1] - 1)
