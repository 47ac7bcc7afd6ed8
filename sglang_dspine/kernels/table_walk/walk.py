"""From the table's sums to scores, choices for every predecessor, and the path. One program a request."""

from __future__ import annotations

import triton
import triton.language as tl

from ..dependent import wait_for_inputs

MOST_PARTS, MOST_SLICES = tl.constexpr(8), tl.constexpr(4)


@triton.jit(do_not_specialize=["rows", "row_count", "uniform_stride", "token_stride", "slices", "parts"])
def table_walk(
    pair, linear, quadratic, own, squares, candidates, temperatures, greedy, uniforms, scores, tokens, chosen, q,
    rows, row_count, eps, uniform_stride, token_stride, slices, parts,
    H: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, RP: tl.constexpr, HALF: tl.constexpr,
    DEPENDENT: tl.constexpr,
):  # fmt: skip
    """scores [T, K, K]; tokens [N, token_stride], candidates and q [N, token_stride, K] of the proposer.

    HALF: s is rounded to BF16, as the definition casts it. RP, KP: rows and K rounded up to powers of two.
    """
    if DEPENDENT:
        wait_for_inputs()
    n = tl.program_id(0)
    r, c = tl.arange(0, RP), tl.arange(0, KP)
    row = n * row_count + r
    square = tl.zeros((RP,), tl.float32)
    unary = tl.zeros((RP, KP), tl.float32)
    live = (r < row_count)[:, None] & (c < K)[None, :]
    at = row[:, None] * K + c[None, :]
    here, sliced = r * 0 + parts, r * 0 + slices  # vectors: the interpreter takes no scalar for a mask
    for part in tl.static_range(MOST_PARTS):  # unrolled: the loads wait together
        square += tl.load(squares + part * rows + row, (r < row_count) & (here > part), 0.0)
        unary += tl.load(own + part * rows * K + at, live & (here > part)[:, None], 0.0)
    line = tl.zeros((RP, KP), tl.float32)
    bent = tl.zeros((RP, KP), tl.float32)
    added = tl.zeros((RP, KP, KP), tl.float32)
    cube = at[:, :, None] * K + c[None, None, :]
    inside = live[:, :, None] & (c < K)[None, None, :]
    for part in tl.static_range(MOST_SLICES):
        line += tl.load(linear + part * rows * K + at, live & (sliced > part)[:, None], 0.0)
        bent += tl.load(quadratic + part * rows * K + at, live & (sliced > part)[:, None], 0.0)
        added += tl.load(pair + part * rows * K * K + cube, inside & (sliced > part)[:, None, None], 0.0)
    s = tl.sqrt(square / H)
    if HALF:
        s = s.to(tl.bfloat16).to(tl.float32)
    length = square[:, None] + 2 * s[:, None] * line + (s * s)[:, None] * bent  # below zero by rounding only
    inverse = 1.0 / tl.sqrt(tl.where(length > 0, length, 0.0) / H + eps)
    score = (unary[:, None, :] + s[:, None, None] * added) * inverse[:, :, None]
    score = tl.where(tl.abs(score) < float("inf"), score, 0.0)  # not finite: a real candidate all the same
    tl.store(scores + cube, score, inside)

    ranked = tl.where((c < K)[None, None, :], score, float("-inf"))
    best = tl.argmax(ranked, 2)  # ties to the first
    heat = tl.load(temperatures + n)
    probs = tl.exp((ranked - tl.max(ranked, 2)[:, :, None]) / heat)
    probs = probs / tl.sum(probs, 2)[:, :, None]
    u = tl.load(uniforms + n * uniform_stride + r, r < row_count, 0.0)
    target = u[:, None] * tl.sum(probs, 2)
    reached = tl.zeros((RP, KP), tl.float32)
    drawn = tl.full((RP, KP), KP, tl.int32)
    for j in range(K):  # the first whose cumulated probability exceeds u, never one of probability zero
        p = tl.sum(tl.where(c[None, None, :] == j, probs, 0.0), 2)
        reached += p
        drawn = tl.where((drawn == KP) & (reached > target) & (p > 0), j, drawn)
    drawn = tl.where(drawn < KP, drawn, best)
    cold = tl.load(greedy + n)
    choice = tl.where(cold, best, drawn)  # [RP, KP] for every predecessor

    place = tl.sum(tl.sum(tl.where((r[:, None] == 0) & (c[None, :] == 0), choice, 0), 1), 0)
    taken = tl.where(r == 0, place, 0)
    previous = tl.zeros((RP,), tl.int32)
    for i in range(1, row_count):
        previous = tl.where(r == i, place, previous)
        place = tl.sum(tl.sum(tl.where((r[:, None] == i) & (c[None, :] == place), choice, 0), 1), 0)
        taken = tl.where(r == i, place, taken)

    law = tl.sum(tl.where(c[None, :, None] == previous[:, None, None], probs, 0.0), 1)  # [RP, KP]
    law = tl.where(cold, (c[None, :] == taken[:, None]).to(tl.float32), law)
    out = n * token_stride + r
    ids = tl.load(candidates + at, live, 0)
    tl.store(tokens + out, tl.load(candidates + row * K + taken, r < row_count, 0), r < row_count)
    tl.store(chosen + out[:, None] * K + c[None, :], ids, live)
    tl.store(q + out[:, None] * K + c[None, :], law, live)
