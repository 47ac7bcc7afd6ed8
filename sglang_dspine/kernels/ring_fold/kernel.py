"""Fold accepted ring rows into recurrent states: one program a (value tile, request, layer and value head).

SGLang 0.5.23 multiplies rows behind the accepted ones by zero, and zero times NaN is NaN: one bad number in a rejected
draft row, or left by a slot's earlier request, would stay in the state for good. Here such rows are never added: every
value that is read is selected by its row before it is used.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def folded(state, d, d_low, k, k_low, g, rows, count, LOW: tl.constexpr, SPLIT: tl.constexpr):
    """state [K, V] after the first `count` of the ring's rows; d [R, V], k [R, K], g [R] fp32."""
    mine = rows < count
    g = tl.where(mine, g, 0.0)
    total = tl.sum(g, 0)
    after = tl.where(mine, tl.exp(total - tl.cumsum(g, 0)), 0.0)
    d = tl.where(mine[:, None], d.to(tl.float32), 0.0)
    k = tl.where(mine[:, None], k, 0.0)
    if LOW:
        d += tl.where(mine[:, None], d_low.to(tl.float32), 0.0)
        k_low = tl.where(mine[:, None], k_low, 0.0)
    d = d * after[:, None]
    if SPLIT:  # keys of 16 bits: the update as two of them, so that tensor cores lose nothing
        high = d.to(k.dtype)
        low = (d - high.to(tl.float32)).to(k.dtype)
        added = tl.dot(tl.trans(k), high)
        added = tl.dot(tl.trans(k), low, added)
        if LOW:
            added = tl.dot(tl.trans(k_low), high, added)
            added = tl.dot(tl.trans(k_low), low, added)
    else:
        keys = k.to(tl.float32)
        if LOW:
            keys += k_low.to(tl.float32)
        added = tl.dot(tl.trans(keys), d, input_precision="ieee")
    return state.to(tl.float32) * tl.exp(total) + added


@triton.jit
def ring_fold(
    states, d_ring, k_ring, g_ring, d_low_ring, k_low_ring, state_slots, ring_slots, lengths, bases, flags, accepted,
    track_slots, track_steps,
    state_slot, state_layer, d_slot, d_layer, k_slot, k_layer, g_slot, g_layer, d_low_slot, d_low_layer,
    k_low_slot, k_low_layer,
    H: tl.constexpr, HV: tl.constexpr, K: tl.constexpr, V: tl.constexpr, R: tl.constexpr, BV: tl.constexpr,
    NULL: tl.constexpr, TRACK: tl.constexpr, LOW: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Strides in elements. `lengths` count this step's accepted rows already; `flags` say whose history is folded."""
    request = tl.program_id(1)
    layer = (tl.program_id(2) // HV).to(tl.int64)
    head = tl.program_id(2) % HV
    state_at = tl.load(state_slots + request).to(tl.int64)
    ring_at = tl.load(ring_slots + request).to(tl.int64)
    if state_at <= NULL:
        return
    length = tl.load(lengths + ring_at).to(tl.int32)
    fold = tl.load(flags + ring_at) != 0
    track_at = state_at
    track_length = 0
    if TRACK:
        track_at = tl.load(track_slots + request).to(tl.int64)
        step = tl.load(track_steps + request).to(tl.int32)
        if (track_at > NULL) & (step >= 0):
            track_length = length - tl.load(accepted + request).to(tl.int32) + step + 1
    if (not fold) & (track_length <= 0):
        return
    rows = tl.arange(0, R)
    place = (tl.load(bases + ring_at).to(tl.int32) + rows) & (R - 1)
    o_k = tl.arange(0, K)
    o_v = tl.program_id(0) * BV + tl.arange(0, BV)
    in_v = (o_v < V)[None, :]
    own = head * V * K + o_v[None, :] * K + o_k[:, None]  # [K, BV] of a state [HV, V, K]
    base = states + layer * state_layer
    state = tl.load(base + state_at * state_slot + own, in_v, 0.0)
    of_d = (head * R + place[:, None]) * V + o_v[None, :]
    of_k = ((head // (HV // H)) * R + place[:, None]) * K + o_k[None, :]
    d = tl.load(d_ring + layer * d_layer + ring_at * d_slot + of_d, in_v, 0.0)
    k = tl.load(k_ring + layer * k_layer + ring_at * k_slot + of_k)
    d_low = d
    k_low = k
    if LOW:
        d_low = tl.load(d_low_ring + layer * d_low_layer + ring_at * d_low_slot + of_d, in_v, 0.0)
        k_low = tl.load(k_low_ring + layer * k_low_layer + ring_at * k_low_slot + of_k)
    g = tl.load(g_ring + layer * g_layer + ring_at * g_slot + head * R + place).to(tl.float32)
    kind: tl.constexpr = states.dtype.element_ty
    if fold:
        after = folded(state, d, d_low, k, k_low, g, rows, length, LOW, SPLIT)
        tl.store(base + state_at * state_slot + own, after.to(kind), in_v)
    if TRACK:  # noqa: SIM102  a constant decides first whether the rest is compiled at all
        if track_length > 0:
            after = folded(state, d, d_low, k, k_low, g, rows, track_length, LOW, SPLIT)
            tl.store(base + track_at * state_slot + own, after.to(kind), in_v)


@triton.jit
def ring_restart(
    state_slots, ring_slots, lengths, bases, flags, count, R: tl.constexpr, BLOCK: tl.constexpr, NULL: tl.constexpr
):
    """Folded requests begin an empty history behind the folded rows. One program for all."""
    request = tl.arange(0, BLOCK)
    here = request < count
    served = here & (tl.load(state_slots + request, here, NULL).to(tl.int64) > NULL)
    ring_at = tl.load(ring_slots + request, here, 0).to(tl.int64)
    done = served & (tl.load(flags + ring_at, served, 0) != 0)
    length = tl.load(lengths + ring_at, done, 0).to(tl.int32)
    base = tl.load(bases + ring_at, done, 0).to(tl.int32)
    tl.store(bases + ring_at, (base + length) & (R - 1), done)
    tl.store(lengths + ring_at, 0, done)
    tl.store(flags + ring_at, 0, done)
