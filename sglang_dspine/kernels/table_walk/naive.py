"""The transition table in low-rank form and the walk through it, in plain torch.

Every term of the table lives in the message space of m numbers; the K refined states of H numbers are never formed
(dspine-spec, "Low-rank form"). Accumulated in fp32.

| name | shape | at 27B | meaning |
|---|---|---|---|
| x | [N, R, H] | [1..32, 7..15, 5120] | last layer's residual stream before injection, rows 1.. |
| receive | [N, R, m] | [.., 512] | G_recv f_i + b of the same rows |
| candidates | [N, R, K] | [.., 16] | token ids |
| predecessors | [N, R, K] | | candidates of the row before; the anchor K times for row 1 |
| scores | [N, R, K, K] | | S[n, i, p, j]: candidate j of row i after predecessor candidate p |
| write | [H, m] | [5120, 512] | W_L |
| gram | [m, m] | [512, 512] | W_L^T W_L, fp32 |
| norm | [H] | | weight of the final norm |
| token_gate, token_message | [V, m] | [248320, 512] | G_pred sqrt(r) code[v], M sqrt(r) code[v] |
"""

from __future__ import annotations

import torch

from ..bridge.naive import row_scale
from .parts import Given, HeadRows, TableWeights


def predecessors(anchor: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """[N], [N, R, K] -> [N, R, K]"""
    first = anchor[:, None, None].expand(-1, 1, candidates.shape[-1])
    return torch.cat([first, candidates[:, :-1]], 1)


def table_naive(
    x: torch.Tensor,
    receive: torch.Tensor,
    candidates: torch.Tensor,
    anchor: torch.Tensor,
    weights: TableWeights,
    head_rows: HeadRows,
) -> torch.Tensor:
    """Scores [N, R, K (predecessor), K (candidate)] in fp32; a non-finite score becomes 0, so that the walk always
    takes a real candidate and q stays a distribution."""
    return table_given(x, receive, candidates, anchor, weights, head_parts(x, candidates, weights, head_rows))


def head_parts(x: torch.Tensor, candidates: torch.Tensor, weights: TableWeights, head_rows: HeadRows) -> Given:
    """What the scores take from the candidates' head rows."""
    rows = head_rows(candidates).to(x.dtype) * weights.norm.to(x.dtype)  # [N, R, K, H]
    own = (rows.float() @ x.float()[..., None]).squeeze(-1)  # [N, R, K]
    return Given(own, rows @ weights.write)


def table_given(
    x: torch.Tensor,
    receive: torch.Tensor,
    candidates: torch.Tensor,
    anchor: torch.Tensor,
    weights: TableWeights,
    given: Given,
) -> torch.Tensor:
    """`table_naive` without a look at the head."""
    before = predecessors(anchor, candidates)
    gate = torch.sigmoid(receive[:, :, None] + weights.token_gate[before])
    z = (gate * weights.token_message[before]).float()  # [N, R, K, m]
    s = row_scale(x).float()[..., None]  # [N, R, 1, 1]
    t = (x @ weights.write).float()[..., None]  # [N, R, m, 1]
    square = x.float().square().sum(-1)[..., None, None] + 2 * s * (z @ t) + s.square() * _quadratic(z, weights.gram)
    added = z @ given.seen.float().transpose(-1, -2)  # [N, R, K, K]
    scores = (given.own[:, :, None] + s * added) * torch.rsqrt(square / x.shape[-1] + weights.eps)
    return torch.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0)


def _quadratic(z: torch.Tensor, gram: torch.Tensor) -> torch.Tensor:
    """z^T Gram z of each vector. [..., m] -> [..., 1]"""
    return ((z @ gram) * z).sum(-1, keepdim=True)


def walk_naive(
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
