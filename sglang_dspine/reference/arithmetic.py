"""Which dtype statistics are taken in, and in which order sums are added."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Arithmetic:
    """The two choices about rounding that every function of the reference takes.

    wide: dtype of norms, rotary angles and softmax; their results are cast back to the model's dtype.
        float32 is what the public training code uses, float64 models included.
    fixed_order: add by halving, elementwise. A BLAS may pick another summation order when the number of
        rows changes; halving gives the same bits for any number of rows, and trailing zeros (masked or
        padded positions) never change a sum. The sigmoid is spelt out for the same reason: torch's rounds
        differently inside and outside its vector loop. Slow, for proofs only.
    """

    wide: torch.dtype = torch.float32
    fixed_order: bool = False

    def sum(self, x: Tensor) -> Tensor:
        """Sum over the last axis: [..., n] -> [...]."""
        if not self.fixed_order:
            return x.sum(-1)
        n = x.shape[-1]
        x = F.pad(x, (0, (1 << (n - 1).bit_length()) - n))  # to a power of two
        while x.shape[-1] > 1:
            half = x.shape[-1] // 2
            x = x[..., :half] + x[..., half:]
        return x[..., 0]

    def product(self, x: Tensor, y: Tensor) -> Tensor:
        """x yᵀ: [..., i, n], [..., j, n] -> [..., i, j]. With a weight [out, in] as y, a linear layer."""
        if not self.fixed_order:
            return x @ y.mT
        return self.sum(x.unsqueeze(-2) * y.unsqueeze(-3))

    def length(self, x: Tensor) -> Tensor:
        """Euclidean length in `wide`: [..., n] -> [..., 1]."""
        return self.sum(x.to(self.wide).square()).sqrt().unsqueeze(-1)

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """RMSNorm with its statistic in `wide`: [..., n], [n] -> [..., n] in x's dtype."""
        wide = x.to(self.wide)
        mean_square = self.sum(wide.square()).unsqueeze(-1) / x.shape[-1]
        return weight * (wide * torch.rsqrt(mean_square + eps)).to(x.dtype)

    def sigmoid(self, x: Tensor) -> Tensor:
        """1 / (1 + exp(-x)): [...] -> [...]."""
        return 1 / (1 + (-x).exp()) if self.fixed_order else torch.sigmoid(x)

    def silu(self, x: Tensor) -> Tensor:
        """x sigmoid(x): [...] -> [...]."""
        return x * self.sigmoid(x) if self.fixed_order else F.silu(x)

    def softmax(self, x: Tensor) -> Tensor:
        """Softmax over the last axis, in `wide`: [..., n] -> [..., n]."""
        x = x.to(self.wide)
        weight = (x - x.amax(-1, keepdim=True)).exp()
        return weight / self.sum(weight).unsqueeze(-1)


DEFAULT = Arithmetic()
FLOAT64 = Arithmetic(wide=torch.float64)
FIXED_FLOAT64 = Arithmetic(wide=torch.float64, fixed_order=True)
