"""The hash against MurmurHash3_x86_32 in plain integers, itself checked by a published vector."""

from __future__ import annotations

import pytest
import torch

hashing = pytest.importorskip("sgl_kernel.hashing")
WORD = 0xFFFFFFFF


def murmur3(data: bytes, h: int = 0) -> int:
    turned = lambda x, bits: ((x << bits) | (x >> (32 - bits))) & WORD  # noqa: E731
    for start in range(0, len(data), 4):
        word = int.from_bytes(data[start : start + 4], "little")
        h ^= turned(word * 0xCC9E2D51 & WORD, 15) * 0x1B873593 & WORD
        h = (turned(h, 13) * 5 + 0xE6546B64) & WORD
    h ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ (h >> shift)) * factor & WORD
    return h ^ (h >> 16)


def test_the_plain_form_is_the_published_function():
    assert murmur3(b"test") == 0xBA6BD213 and murmur3(b"test", 0x9747B28C) == 0x704B81DC


def test_every_entry_is_the_hash_of_its_seed_position_and_column():
    seeds, positions, columns = [0, 7, 2**33 + 5, 2**62 + 1], [0, 1, 4096, 2**31 - 1], [0, 1, 271, 248_319]
    found = hashing.murmur_hash32_cpu(torch.tensor(seeds), torch.tensor(positions), torch.tensor(columns))
    assert found.dtype == torch.uint32
    for i, (seed, position) in enumerate(zip(seeds, positions, strict=True)):
        for j, column in enumerate(columns):
            data = seed.to_bytes(8, "little") + position.to_bytes(4, "little") + column.to_bytes(4, "little")
            assert int(found[i, j]) == murmur3(data)
