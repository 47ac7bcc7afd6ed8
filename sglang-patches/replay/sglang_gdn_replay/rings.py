"""Shapes of SGLang's rings, and whether a verify block fits."""

from __future__ import annotations

from typing import Any

from .sources import ReplayError


def ring_rows(pool: Any) -> int:
    return int(pool.mamba_cache.replayssm_d.shape[-2])


def block_rows(pool: Any) -> int:
    """Rows of the widest verify block: for each, the pool holds a convolution window."""
    return int(pool.mamba_cache.intermediate_conv_window[0].shape[2])


def require_rings(pool: Any) -> None:
    if getattr(pool, "replayssm_cache_base", None) is None or pool.mamba_cache.intermediate_ssm is not None:
        raise ReplayError("the pool was built without rings, or with a state per row beside them")
    rows, block = ring_rows(pool), block_rows(pool)
    needed = max(16, 1 << (block - 1).bit_length())
    if rows < needed or rows & (rows - 1):
        raise ValueError(
            f"--linear-replayssm-cache-len {rows}: a verify block of {block} rows needs a power of two of at least "
            f"{needed}; pass {needed}"
        )
