"""Prompts of given lengths."""

from __future__ import annotations

import random


def random_prompts(lengths, seed: int = 0, vocab: int = 256) -> list[list[int]]:
    """One prompt of uniformly drawn ids below `vocab` for each length."""
    draw = random.Random(seed)
    return [[draw.randrange(vocab) for _ in range(length)] for length in lengths]
