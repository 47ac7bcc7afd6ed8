"""What one rank knows of the candidates' head rows, when the vocabulary is spread over ranks, in plain torch.

Of each candidate the table needs its dot with x, one number, and its row of U = W_L^T (w * head[c]), m numbers. A rank
fills these in for the tokens it owns and leaves zeros for the others, so a sum over ranks is the table's input and
moves m + 1 numbers a candidate instead of the H of a head row. Every number is one rank's and zeros: the sum is exact.

| name | shape | at 27B | meaning |
|---|---|---|---|
| x | [N, R, H] | [1..32, 7..15, 5120] | last layer's residual stream before injection, rows 1.. |
| candidates | [N, R, K] | [.., 16] | token ids of the whole vocabulary |
| seen | [N, R, K, m] | [.., 512] | U of a candidate |
| own | [N, R, K, P] | P = 3 | x . (w * head[c]) in fp32, as P numbers of the payload's dtype |

A BF16 model sends BF16: U is stored so, and three BF16 numbers hold one fp32 exactly. Any other sends fp32, with P = 1.
"""

from __future__ import annotations

import torch

from ..table_walk.naive import head_parts
from ..table_walk.parts import Given, HeadRows, TableWeights


class Share:
    """One payload for one all-reduce, and the views that are filled and read."""

    def __init__(self, candidates: torch.Tensor, message: int, dtype: torch.dtype) -> None:
        wire = torch.bfloat16 if dtype == torch.bfloat16 else torch.float32
        self.parts, count = 3 if wire == torch.bfloat16 else 1, candidates.numel()
        self.dtype = dtype
        self.payload = torch.empty(count * (message + self.parts), dtype=wire, device=candidates.device)
        # U first, so that its rows stay aligned
        self.seen = self.payload[: count * message].view(*candidates.shape, message)
        self.own = self.payload[count * message :].view(*candidates.shape, self.parts)

    def given(self, payload: torch.Tensor) -> Given:
        """What the table reads, from the sum of all ranks' payloads."""
        seen = payload[: self.seen.numel()].view(self.seen.shape).to(self.dtype)
        own = payload[self.seen.numel() :].view(self.own.shape)
        return Given(own.float().sum(-1), seen)


def head_share_naive(
    x: torch.Tensor,
    candidates: torch.Tensor,
    weights: TableWeights,
    local_rows: HeadRows,
    start: int,
    owned: int,
    share: Share,
) -> None:
    """Fill `share`. This rank owns tokens start .. start + owned - 1; local_rows takes ids counted from start."""
    local = candidates - start
    mine = ((local >= 0) & (local < owned))[..., None]
    if owned == 0:  # a rank of padding alone
        share.payload.zero_()
        return
    own, seen = head_parts(x, local.clamp(0, owned - 1), weights, local_rows)
    share.seen.copy_(torch.where(mine, seen, 0))
    for part in range(share.parts):
        rounded = own.to(share.own.dtype)
        share.own[..., part] = torch.where(mine[..., 0], rounded, 0)
        own = own - rounded.float()
