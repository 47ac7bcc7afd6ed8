"""The bridge of one layer in three launches: read, message, write.

A message needs whole rows of features (they are normalised) and a write needs whole messages, so there is a launch
for each; everything between the products happens in their registers. T = N * w rows, w rows a block. Sizes that follow
the batch are not specialised: every variant costs seconds of compilation at a first start.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..dependent import fetch_ahead, wait_for_inputs

MOST_PARTS = tl.constexpr(8)


@triton.jit(do_not_specialize=["rows", "split"])
def bridge_read(
    residual, delta, readout, before, read, partial, squares, arrivals, rows, split,
    H: tl.constexpr, RANK: tl.constexpr, ADD: tl.constexpr, BT: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    DEPENDENT: tl.constexpr,
):  # fmt: skip
    """before = residual + delta [T, H], read = before R^T [T, r], squares [split, T]: parts of |before|^2.

    Programs: (row tile, column tile, part of H). The last of a tile's parts to arrive adds all of them, in order, so
    the sum does not depend on who came last.
    """
    columns: tl.constexpr = (RANK + BN - 1) // BN
    steps = ((H + BK - 1) // BK + split - 1) // split
    column, part = tl.program_id(1), tl.program_id(2)
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    n = column * BN + tl.arange(0, BN)
    mine = tl.zeros((BT,), tl.int32) + column  # a vector: the interpreter takes no scalar for a mask
    if DEPENDENT:
        fetch_ahead(readout, column * BN, RANK, part * steps * BK, (part + 1) * steps * BK, H, BN, 16)
        wait_for_inputs()
    sums = tl.zeros((BT, BN), tl.float32)
    squared = tl.zeros((BT, BK), tl.float32)  # summed once at the end: a sum across threads costs a barrier
    for step in range(steps):
        k = (part * steps + step) * BK + tl.arange(0, BK)
        here = t[:, None] * H + k[None, :]
        live = (t[:, None] < rows) & (k[None, :] < H)
        h = tl.load(residual + here, live, 0.0)
        if ADD:
            h = (h.to(tl.float32) + tl.load(delta + here, live, 0.0).to(tl.float32)).to(h.dtype)
            tl.store(before + here, h, live & (mine == step % columns)[:, None])  # the stores are shared out
        wide = h.to(tl.float32)
        squared += wide * wide
        weight = tl.load(readout + n[None, :] * H + k[:, None], (n[None, :] < RANK) & (k[:, None] < H), 0.0)
        sums = tl.dot(h, weight, sums, input_precision="ieee")
    tl.store(squares + part * rows + t, tl.sum(squared, 1), (t < rows) & (mine == 0))
    out = t[:, None] * RANK + n[None, :]
    live = (t[:, None] < rows) & (n[None, :] < RANK)
    if split == 1:
        tl.store(read + out, sums.to(read.dtype.element_ty), live)
    else:
        tl.store(partial + part * rows * RANK + out, sums, live)
        tl.debug_barrier()  # all of this program's parts are written before it counts as arrived
        seat = arrivals + tl.program_id(0) * columns + column
        if tl.atomic_add(seat, 1, sem="acq_rel") == split - 1:
            sums = tl.zeros((BT, BN), tl.float32)
            for other in tl.static_range(MOST_PARTS):  # unrolled: the loads wait together
                sums += tl.load(
                    partial + other * rows * RANK + out,
                    live & (mine * 0 + split > other)[:, None],
                    0.0,
                    cache_modifier=".cg",
                )
            tl.store(read + out, sums.to(read.dtype.element_ty), live)
            tl.store(seat, 0)  # as the next launch finds it


@triton.jit
def bridge_sum(residual, delta, before, squares, H: tl.constexpr, ADD: tl.constexpr, BH: tl.constexpr):
    """before = residual + delta [T, H], squares [T] = |before|^2. One program a row; for many rows, whose read-out is
    then a plain product."""
    row = tl.program_id(0)
    squared = tl.zeros((BH,), tl.float32)
    for start in tl.static_range(0, H, BH):
        h = start + tl.arange(0, BH)
        value = tl.load(residual + row * H + h, h < H, 0.0)
        if ADD:
            value = (value.to(tl.float32) + tl.load(delta + row * H + h, h < H, 0.0).to(tl.float32)).to(value.dtype)
            tl.store(before + row * H + h, value, h < H)
        squared += value.to(tl.float32) * value.to(tl.float32)
    tl.store(squares + row, tl.sum(squared, 0))


@triton.jit(do_not_specialize=["rows", "width"])
def bridge_message(
    read, features_to_message, bias, token_gate, token_message, anchor, receive, message, rows, width, smallest,
    RANK: tl.constexpr, M: tl.constexpr, BT: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    """receive [T, m] fp32 = G_recv f + b, message [T, m] = sigmoid(receive + G_pred p) * M p; zero for row 0.

    Features are normalised after the products: a row's length is a factor of all its columns.
    """
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    row = t % width
    follows = (t < rows) & (row > 1)  # row t - 1 is its predecessor
    if DEPENDENT:
        for matrix in tl.static_range(3):
            fetch_ahead(features_to_message + matrix * M * RANK, tl.program_id(1) * BM, M, 0, RANK, RANK, BM, 16)
        wait_for_inputs()
    # asked for first: the products hide the wait
    token = tl.load(anchor + t // width, t < rows, 0).to(tl.int64)
    first = ((t < rows) & (row == 1))[:, None] & (m[None, :] < M)  # follows the anchor: a token, not a state
    token_gated = tl.load(token_gate + token[:, None] * M + m[None, :], first, 0.0)
    token_told = tl.load(token_message + token[:, None] * M + m[None, :], first, 0.0)
    offset = tl.load(bias + m, m < M, 0.0)
    received = tl.zeros((BT, BM), tl.float32)
    gated = tl.zeros((BT, BM), tl.float32)
    told = tl.zeros((BT, BM), tl.float32)
    own = tl.zeros((BT, BK), tl.float32)
    previous = tl.zeros((BT, BK), tl.float32)
    for start in range(0, RANK, BK):
        k = start + tl.arange(0, BK)
        inside = k[None, :] < RANK
        f = tl.load(read + t[:, None] * RANK + k[None, :], (t[:, None] < rows) & inside, 0.0)
        p = tl.load(read + (t[:, None] - 1) * RANK + k[None, :], follows[:, None] & inside, 0.0)
        own += f.to(tl.float32) * f.to(tl.float32)
        previous += p.to(tl.float32) * p.to(tl.float32)
        at = features_to_message + m[None, :] * RANK + k[:, None]
        live = (m[None, :] < M) & (k[:, None] < RANK)
        received = tl.dot(f, tl.load(at, live, 0.0), received, input_precision="ieee")
        gated = tl.dot(p, tl.load(at + M * RANK, live, 0.0), gated, input_precision="ieee")
        told = tl.dot(p, tl.load(at + 2 * M * RANK, live, 0.0), told, input_precision="ieee")
    length: tl.constexpr = RANK**0.5
    received *= (length / tl.maximum(tl.sqrt(tl.sum(own, 1)), smallest))[:, None]
    scale = (length / tl.maximum(tl.sqrt(tl.sum(previous, 1)), smallest))[:, None]
    received += offset.to(tl.float32)[None, :]
    gated = tl.where(first, token_gated.to(tl.float32), gated * scale)
    told = tl.where(first, token_told.to(tl.float32), told * scale)
    sent = told / (1.0 + tl.exp(-(received + gated)))
    sent = tl.where((row > 0)[:, None], sent, 0.0)
    out = t[:, None] * M + m[None, :]
    live = (t[:, None] < rows) & (m[None, :] < M)
    tl.store(receive + out, received, live)
    tl.store(message + out, sent.to(message.dtype.element_ty), live)


@triton.jit(do_not_specialize=["rows", "width", "split"])
def bridge_write(
    before, message, write, squares, after, rows, width, split,
    H: tl.constexpr, M: tl.constexpr, BT: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    """after = before + |before| / sqrt(H) * W message [T, H]; row 0 as it was."""
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    here = t[:, None] * H + n[None, :]
    live = (t[:, None] < rows) & (n[None, :] < H)
    if DEPENDENT:
        fetch_ahead(write, tl.program_id(1) * BN, H, 0, M, M, BN, 8)
        wait_for_inputs()
    h = tl.load(before + here, live, 0.0)  # this and the squares first: the product hides the wait
    part = tl.arange(0, MOST_PARTS)
    square = tl.load(squares + part[:, None] * rows + t[None, :], (part < split)[:, None] & (t < rows)[None, :], 0.0)
    written = tl.zeros((BT, BN), tl.float32)
    for start in range(0, M, BK):
        k = start + tl.arange(0, BK)
        z = tl.load(message + t[:, None] * M + k[None, :], (t[:, None] < rows) & (k[None, :] < M), 0.0)
        weight = tl.load(write + n[None, :] * M + k[:, None], (n[None, :] < H) & (k[:, None] < M), 0.0)
        written = tl.dot(z, weight, written, input_precision="ieee")
    # cast where the definition casts
    scale = tl.sqrt(tl.sum(square, 0) / H).to(before.dtype.element_ty).to(tl.float32)
    h = h.to(tl.float32)
    h = tl.where((t % width > 0)[:, None], h + scale[:, None] * written, h)
    tl.store(after + here, h.to(after.dtype.element_ty), live)
