"""Where blocks are drafted: evenly over what was written, so many per sequence and context length."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from itertools import pairwise

from ..errors import DSpineError
from .sequence import Sequence

EDGES = (0, 4096, 8192, 16384, 24576, 32768)


def check_edges(edges: SequenceOf[int]) -> tuple[int, ...]:
    """Rising from 0 or above."""
    if len(edges) < 2 or min(edges) < 0 or any(a >= b for a, b in pairwise(edges)):
        raise DSpineError(f"buckets {list(edges)}: expected at least two rising numbers, as in 0,4096,8192")
    return tuple(edges)


def bucket_of(at: int, edges: SequenceOf[int]) -> int | None:
    """Which [edges[i], edges[i+1]) a context of `at` tokens falls into; None beyond the last."""
    return next((i for i, (low, high) in enumerate(pairwise(edges)) if low <= at < high), None)


def label(bucket: int, edges: SequenceOf[int]) -> str:
    """`0-4K`; numbers that are no thousands as they are."""
    low, high = edges[bucket], edges[bucket + 1]
    if low % 1024 == 0 and high % 1024 == 0:
        return f"{low // 1024}-{high // 1024}K"
    return f"{low}-{high}"


def anchors_of(sequence: Sequence, block: int, per_bucket: int, edges: SequenceOf[int]) -> list[int]:
    """Positions of anchors, rising. Behind each, `block` - 1 tokens of the same answer follow.

    block: of the widest arm, so that all arms draft behind the same anchors. The first anchor is an answer's first
    token, as in a server, where it comes from the prefill.
    """
    places: dict[int, list[int]] = {}
    for start, end in sequence.spans:
        for at in range(max(start, 1), end - block + 1):
            bucket = bucket_of(at, edges)
            if bucket is not None:
                places.setdefault(bucket, []).append(at)
    return sorted(at for found in places.values() for at in _evenly(found, per_bucket))


def _evenly(places: list[int], count: int) -> list[int]:
    if len(places) <= count:
        return places
    step = len(places) / count
    return [places[int((i + 0.5) * step)] for i in range(count)]
