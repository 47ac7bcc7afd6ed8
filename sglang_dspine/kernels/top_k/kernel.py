"""Top-k in two stages: the largest value of every group of neighbouring tokens, then the best of the best groups.

The K best tokens lie in the K groups with the largest maxima (equal maxima: the lower group). Were one in another
group, each of those K groups would hold a token ranking before it. So the logits are read once, at the memory's speed,
and the second stage looks at K groups only.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..dependent import wait_for_inputs


@triton.jit
def order_key(value):
    """int32 in the order of the values: -0 equals 0, NaN is the largest."""
    value = value.to(tl.float32)
    value = tl.where(value == 0, 0.0, value)
    bits = value.to(tl.int32, bitcast=True)
    bits = tl.where(value == value, bits, 0x7FC00000)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit(do_not_specialize=["vocab", "groups"])
def group_maxima(
    logits, maxima, stride, vocab, groups, GROUP: tl.constexpr, TILE: tl.constexpr, DEPENDENT: tl.constexpr
):
    """maxima [T, groups] int32 keys. Programs: (row, TILE groups)."""
    if DEPENDENT:
        wait_for_inputs()
    row = tl.program_id(0).to(tl.int64)
    g = tl.program_id(1) * TILE + tl.arange(0, TILE)
    v = g[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    key = order_key(tl.load(logits + row * stride + v, v < vocab, float("-inf")))
    key = tl.where(v < vocab, key, -0x80000000)  # below -inf, which a real token may have
    tl.store(maxima + row * groups + g, tl.max(key, 1), g < groups)


@triton.jit(do_not_specialize=["vocab", "groups"])
def best_of_groups(
    logits, maxima, values, ids, stride, vocab, groups,
    K: tl.constexpr, KP: tl.constexpr, GROUP: tl.constexpr, GROUPS: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    """values, ids [T, K]. One program a row; KP, GROUPS: K and the number of groups rounded up to powers of two.

    A key and the complement of its place share an int64, so a maximum settles ties by the lowest place.
    """
    if DEPENDENT:
        wait_for_inputs()
    row = tl.program_id(0).to(tl.int64)
    rank = tl.arange(0, KP)
    g = tl.arange(0, GROUPS)
    ranked = tl.load(maxima + row * groups + g, g < groups, -0x80000000).to(tl.int64)
    ranked = (ranked << 32) | (0x7FFFFFFF - g).to(tl.int64)
    chosen = tl.zeros((KP,), tl.int32)
    for i in range(K):
        best = tl.max(ranked, 0)
        place = 0x7FFFFFFF - (best & 0x7FFFFFFF)
        chosen = tl.where(rank == i, place.to(tl.int32), chosen)
        ranked = tl.where(g == place, -0x8000000000000000, ranked)

    v = chosen[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    live = (v < vocab) & (rank < K)[:, None]
    key = order_key(tl.load(logits + row * stride + v, live, float("-inf"))).to(tl.int64)
    ranked = tl.where(live, (key << 32) | (0x7FFFFFFF - v).to(tl.int64), -0x8000000000000000)
    found = tl.zeros((KP,), tl.int64)
    for i in range(K):
        best = tl.max(tl.max(ranked, 1), 0)
        place = 0x7FFFFFFF - (best & 0x7FFFFFFF)
        found = tl.where(rank == i, place, found)
        ranked = tl.where(v == place, -0x8000000000000000, ranked)
    tl.store(ids + row * K + rank, found, rank < K)
    tl.store(values + row * K + rank, tl.load(logits + row * stride + found, rank < K, 0.0), rank < K)
