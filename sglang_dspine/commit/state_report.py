"""What a verify step holds of recurrent state for one request: read off SGLang's pool, said once at start.

With ReplaySSM rings of R rows (updates d, keys k, gates g, and what rounding took off d and k), without it the state
after each of W rows; convolution windows in both.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scratch:
    """Bytes of one request, all layers."""

    replay: bool
    held: int  # as the pool is
    other: int  # as it would be with ReplaySSM the other way

    @classmethod
    def of(cls, pool: Any, ring: int, width: int) -> Scratch:
        """pool: SGLang's MambaPool. ring, width: rows of a ring and of the widest verify, for the way not taken."""
        cache = pool.mamba_cache
        windows = _each(pool._intermediate_conv_window_phys)
        rings = _each(getattr(cache, f"replayssm_{name}") for name in ("d", "k", "g", "rawv", "rawk"))
        states = _each([cache.intermediate_ssm])
        layers, _, heads, value, key = cache.temporal.shape
        channels, size = cache.conv[0].shape[2], cache.conv[0].element_size()
        if rings:
            other = layers * width * heads * value * key * cache.temporal.element_size()
            return cls(True, rings + windows, other + windows)
        key_heads = (channels - heads * value) // (2 * key)
        parts = 1 if size == 4 else 2
        row = (heads * value + key_heads * key) * size * parts + heads * 4
        return cls(False, states + windows, layers * ring * row + windows)

    def __str__(self) -> str:
        with_or, otherwise = ("with", "without") if self.replay else ("without", "with")
        return (
            f"{self.held / 1e6:.1f} MB of recurrent scratch a request {with_or} ReplaySSM, {otherwise} it would be "
            f"{self.other / 1e6:.1f} MB"
        )


def _each(tensors: Iterable[torch.Tensor | None]) -> int:
    """Bytes of one request in tensors [layers, requests, ...]."""
    return sum(t.numel() // t.shape[1] * t.element_size() for t in tensors if t is not None)


def say_scratch(model_runner: Any, server_args: Any, width: int) -> Scratch | None:
    """None for a target without recurrent layers."""
    pool = getattr(model_runner.req_to_token_pool, "mamba_pool", None)
    if pool is None or not hasattr(pool, "_intermediate_conv_window_phys"):
        return None
    found = Scratch.of(pool, int(server_args.linear_replayssm_cache_len), width)
    logger.info("DSPINE: %s", found)
    return found
