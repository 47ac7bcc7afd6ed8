"""MurmurHash3 of a 64-bit seed, a position and a column: what seeded sampling draws from.

The 16 bytes are hashed as four little-endian words; see Austin Appleby's MurmurHash3_x86_32 (public domain).
"""

from __future__ import annotations

import torch

OPS = ("murmur_hash32_cpu",)
WORD = 0xFFFFFFFF


def _turned(x: torch.Tensor, bits: int) -> torch.Tensor:
    return ((x << bits) | (x >> (32 - bits))) & WORD


def _product(x: torch.Tensor, factor: int) -> torch.Tensor:
    """x * factor modulo 2^32, the factor in halves: int64 would overflow."""
    return (x * (factor & 0xFFFF) + (((x * (factor >> 16)) & 0xFFFF) << 16)) & WORD


def _mixed(h: torch.Tensor, word: torch.Tensor) -> torch.Tensor:
    word = _turned(_product(word, 0xCC9E2D51), 15)
    h = _turned(h ^ _product(word, 0x1B873593), 13)
    return (h * 5 + 0xE6546B64) & WORD


def murmur_hash32_cpu(seed: torch.Tensor, positions: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """seed, positions [N], columns [M], integers -> uint32 [N, M]"""
    seed, positions, columns = seed.long()[:, None], positions.long()[:, None], columns.long()[None]
    h = torch.zeros(1, 1, dtype=torch.int64)
    for word in (seed & WORD, (seed >> 32) & WORD, positions & WORD, columns & WORD):
        h = _mixed(h, word)
    h = h ^ 16  # bytes hashed
    h = _product(h ^ (h >> 16), 0x85EBCA6B)
    h = _product(h ^ (h >> 13), 0xC2B2AE35)
    return (h ^ (h >> 16)).to(torch.uint32)


murmur_hash32_cpu.default = murmur_hash32_cpu  # type: ignore[attr-defined]  # SGLang names the overload
