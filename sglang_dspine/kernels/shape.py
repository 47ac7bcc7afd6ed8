"""Sizes of the drafter that the budgets and timings are made for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """Defaults: the drafter of the 27B target (dspine-spec, "Symbols")."""

    hidden: int = 5120
    layers: int = 5
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    intermediate: int = 17408
    vocab: int = 248320
    rank: int = 1024
    message: int = 512
    top_k: int = 16
    taps: int = 5
    window: int = 8192

    @property
    def kv(self) -> int:
        """Numbers of one position's K, or V, in one layer."""
        return self.kv_heads * self.head_dim

    @property
    def layer_weights(self) -> int:
        """Numbers of one layer's linears."""
        q = self.heads * self.head_dim
        return self.hidden * (2 * q + 2 * self.kv + 3 * self.intermediate)


SHAPE_27B = Shape()
