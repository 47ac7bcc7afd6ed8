"""The transition table in low-rank form: S[i, p, j] scores candidate j of row i after predecessor candidate p.

Every term lives in the message space of m numbers; the K refined states of H numbers are never formed
(dspine-spec, "Low-rank form"). Accumulated in fp32.

| name | shape | meaning |
|---|---|---|
| x | [N, R, H] | last layer's residual stream before injection, rows 1.. |
| receive | [N, R, m] | G_recv f_i + b of the same rows |
| candidates | [N, R, K] | token ids |
| predecessors | [N, R, K] | candidates of the row before; the anchor K times for row 1 |
"""

from __future__ import annotations

import torch

from ..kernels.bridge.naive import row_scale
from ..model.bridge import Bridge
from .head import TargetHead


def predecessors(anchor: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
    """[N], [N, R, K] -> [N, R, K]"""
    first = anchor[:, None, None].expand(-1, 1, candidates.shape[-1])
    return torch.cat([first, candidates[:, :-1]], 1)


class TransitionTable:
    """Holds what is constant: W_L, its Gram matrix and the final norm."""

    def __init__(self, bridge: Bridge, norm_weight: torch.Tensor, eps: float, head: TargetHead) -> None:
        self.bridge, self.head, self.eps = bridge, head, eps
        self.norm_weight = norm_weight
        self.write = bridge.writes[-1]  # W_L [H, m]
        self.gram = (self.write.float().T @ self.write.float()).contiguous()  # [m, m]

    def __call__(
        self, x: torch.Tensor, receive: torch.Tensor, candidates: torch.Tensor, anchor: torch.Tensor
    ) -> torch.Tensor:
        """Scores [N, R, K (predecessor), K (candidate)] in fp32; a non-finite score becomes 0, so that the walk
        always takes a real candidate and q stays a distribution."""
        before = predecessors(anchor, candidates)
        gate = torch.sigmoid(receive[:, :, None] + self.bridge.token_gate[before])
        z = (gate * self.bridge.token_message[before]).float()  # [N, R, K, m]
        s = row_scale(x).float()[..., None]  # [N, R, 1, 1]
        t = (x @ self.write).float()[..., None]  # [N, R, m, 1]
        x32 = x.float()
        square = x32.square().sum(-1)[..., None, None] + 2 * s * (z @ t) + s.square() * _quadratic(z, self.gram)
        rows = self.head.rows(candidates).to(x.dtype) * self.norm_weight.to(x.dtype)  # [N, R, K, H]
        own = (rows.float() @ x32[..., None]).squeeze(-1)  # [N, R, K]
        added = z @ (rows @ self.write).float().transpose(-1, -2)  # [N, R, K, K]
        scores = (own[:, :, None] + s * added) * torch.rsqrt(square / x.shape[-1] + self.eps)
        return torch.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0)


def _quadratic(z: torch.Tensor, gram: torch.Tensor) -> torch.Tensor:
    """z^T Gram z of each vector. [..., m] -> [..., 1]"""
    return ((z @ gram) * z).sum(-1, keepdim=True)
