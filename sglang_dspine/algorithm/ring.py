"""ReplaySSM's ring: long enough for a verify block, or refused at start with the number to pass (report 3)."""

from __future__ import annotations

from typing import Any

from ..errors import FlagError

SHORTEST = 16  # the smallest tile of SGLang's products over a ring (gdn_replayssm_spec_decode.py)


def ring_for(width: int) -> int:
    """Rows of the shortest ring that holds a verify block: addresses wrap by a mask, so a power of two.

    A history is folded before a block would not fit behind it, so the block alone decides.
    """
    return max(SHORTEST, 1 << (width - 1).bit_length())


def require_ring(args: Any) -> None:
    """Raises FlagError where SGLang would drop rows of a block, or stop at an assertion while it builds its pools."""
    if not getattr(args, "enable_linear_replayssm_spec", False):
        return
    length, width = int(args.linear_replayssm_cache_len), int(args.speculative_num_draft_tokens)
    needed = ring_for(width)
    if length < needed or length & (length - 1):
        raise FlagError(
            f"--linear-replayssm-cache-len {length}: a verify block of {width} rows needs a power of two of at least "
            f"{needed}; pass {needed}"
        )
