"""The sums of the transition table, for the whole batch in one launch.

Two kinds of programs share it, because one waits for memory and the other computes: `pairs` work in the message space,
`unary` read the candidates' head rows where they lie in the target's head. T = N * R rows. In form GIVEN nothing of the
head is read: `own` is there already, and `seen` has a row for each candidate, not for each token.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ..dependent import wait_for_inputs
from ..head_rows.read import read_head


@triton.jit
def pairs(
    program, receive, projected, candidates, anchor, token_gate, token_message, gram, seen, messages,
    pair, linear, quadratic, rows, row_count, receive_block, receive_row, projected_block, projected_row,
    slices, FORM: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, M: tl.constexpr, GROUP: tl.constexpr,
    BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Of GROUP rows and a slice of the message space: z . U [K, K], t . z [K] and z^T Gram z [K], partial sums.

    z = sigmoid(G_recv f + b + Pcode[c]) * Mcode[c] is computed once, and read back from `messages` by products.
    """
    E: tl.constexpr = GROUP * KP
    tiles = ((M + BM - 1) // BM + slices - 1) // slices  # of BM columns in a slice
    part = program % slices
    e = tl.arange(0, E)
    row = program // slices * GROUP + e // KP
    place = e % KP
    live = (row < rows) & (place < K)
    block, i = row // row_count, row % row_count
    # the row before holds the predecessors; row 1's is the anchor, K times
    first = live & (i == 0)
    token = tl.load(candidates + (row - 1) * K + place, live & (i > 0), 0)
    token = tl.where(first, tl.load(anchor + block, first, 0), token).to(tl.int32)
    received = receive + (block * receive_block + i * receive_row)[:, None]
    here = messages + ((part * rows + row) * K + place)[:, None] * M
    for start in tl.range(0, M, BK, num_stages=3):
        k = (start + tl.arange(0, BK))[None, :]
        inside = live[:, None] & (k < M)
        gate = tl.load(received + k, inside, 0.0).to(tl.float32)
        gate += tl.load(token_gate + token[:, None] * M + k, inside, 0.0).to(tl.float32)
        z = tl.load(token_message + token[:, None] * M + k, inside, 0.0).to(tl.float32) / (1.0 + tl.exp(-gate))
        tl.store(here + k, z.to(messages.dtype.element_ty), inside)
    tl.debug_barrier()

    if FORM == 3:  # noqa: SIM108
        candidate = row * K + place
    else:
        candidate = tl.load(candidates + row * K + place, live, 0).to(tl.int32)
    projected_at = projected + (block * projected_block + i * projected_row)[:, None]
    lines = tl.zeros((E,), tl.float32)
    bent = tl.zeros((E,), tl.float32)
    scored = tl.zeros((E, E), tl.float32)  # of which a row's own block counts
    for sub in range(tiles):
        m = (part * tiles + sub) * BM + tl.arange(0, BM)
        product = tl.zeros((E, BM), tl.float32)  # (z Gram)[:, m]
        for start in range(0, M, BK):
            k = start + tl.arange(0, BK)
            z = tl.load(here + k[None, :], live[:, None] & (k < M)[None, :], 0.0)
            weight = tl.load(gram + k[:, None] * M + m[None, :], (k < M)[:, None] & (m < M)[None, :], 0.0)
            product = tl.dot(z, weight, product, input_precision="ieee")
        inside = live[:, None] & (m < M)[None, :]
        z = tl.load(here + m[None, :], inside, 0.0)
        u = tl.load(seen + candidate[None, :] * M + m[:, None], live[None, :] & (m < M)[:, None], 0.0)
        scored = tl.dot(z, u, scored, input_precision="ieee")
        bent += tl.sum(product * z.to(tl.float32), 1)
        t = tl.load(projected_at + m[None, :], inside, 0.0).to(tl.float32)
        lines += tl.sum(t * z.to(tl.float32), 1)
    out = (part * rows + row) * K + place
    tl.store(quadratic + out, bent, live)
    tl.store(linear + out, lines, live)
    same = (row[:, None] == row[None, :]) & live[:, None] & live[None, :]
    tl.store(pair + out[:, None] * K + place[None, :], scored, same)


@triton.jit
def unary(
    program, x, candidates, norm, head, scales, scale, own, squares, rows, row_count, x_block, x_row, head_stride,
    parts, FORM: tl.constexpr, H: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, BH: tl.constexpr,
):  # fmt: skip
    """Of one row and one part of H: x . (w * head[c]) for each candidate, and |x|^2, partial sums."""
    steps = ((H + BH - 1) // BH + parts - 1) // parts
    row, part = program // parts, program % parts
    place = tl.arange(0, KP)
    token = tl.load(candidates + row * K + place, place < K, 0)
    start = x + (row // row_count) * x_block + (row % row_count) * x_row
    sums = tl.zeros((KP, BH), tl.float32)
    square = tl.zeros((BH,), tl.float32)
    for step in tl.range(0, steps, num_stages=5):  # no product in it: unasked, nothing would be fetched ahead
        h = (part * steps + step) * BH + tl.arange(0, BH)
        value = tl.load(start + h, h < H, 0.0).to(tl.float32)
        square += value * value
        if FORM != 3:
            weighted = value * tl.load(norm + h, h < H, 0.0).to(tl.float32)
            live = (place < K)[:, None] & (h < H)[None, :]
            sums += weighted[None, :] * read_head(head, scales, scale, token, h, live, head_stride, FORM, H)
    if FORM != 3:
        tl.store(own + (part * rows + row) * K + place, tl.sum(sums, 1), place < K)
    tl.store(squares + part * rows + row, tl.sum(square, 0))


@triton.jit(do_not_specialize=["rows", "row_count", "pairing", "slices", "parts"])
def table_sums(
    x, receive, projected, candidates, anchor, norm, token_gate, token_message, gram, seen, head, scales, scale,
    messages, pair, linear, quadratic, own, squares,
    rows, row_count, x_block, x_row, receive_block, receive_row, projected_block, projected_row, head_stride, pairing,
    slices, parts, FORM: tl.constexpr, H: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, M: tl.constexpr,
    GROUP: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, BH: tl.constexpr, DEPENDENT: tl.constexpr,
):  # fmt: skip
    """messages [slices, T, K, m]; pair [slices, T, K, K], linear and quadratic [slices, T, K]; own [parts, T, K],
    squares [parts, T].

    The first `pairing` programs are `pairs`, the T * parts others `unary`.
    """
    if DEPENDENT:
        wait_for_inputs()
    program = tl.program_id(0)
    if program < pairing:
        pairs(
            program, receive, projected, candidates, anchor, token_gate, token_message, gram, seen, messages,
            pair, linear, quadratic, rows, row_count, receive_block, receive_row, projected_block, projected_row,
            slices, FORM, K, KP, M, GROUP, BM, BK,
        )  # fmt: skip
    else:
        unary(
            program - pairing, x, candidates, norm, head, scales, scale, own, squares, rows, row_count, x_block, x_row,
            head_stride, parts, FORM, H, K, KP, BH,
        )  # fmt: skip
