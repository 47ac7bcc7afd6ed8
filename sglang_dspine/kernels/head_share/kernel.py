"""One rank's share of the table's input. One program a candidate; those of other ranks write zeros and are done."""

from __future__ import annotations

import triton
import triton.language as tl

from ..head_rows.read import read_head


@triton.jit(do_not_specialize=["row_count", "start", "owned"])
def head_share(
    x, candidates, norm, seen, head, scales, scale, shared, own, row_count, x_block, x_row, start, owned, head_stride,
    FORM: tl.constexpr, H: tl.constexpr, K: tl.constexpr, M: tl.constexpr, MP: tl.constexpr, BH: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """shared [T * K, M], own [T * K, PARTS]. MP: M rounded up to a power of two."""
    place = tl.program_id(0)
    one = tl.arange(0, 1)
    first = tl.load(candidates + place) - start  # counted from this rank's first
    mine = (first >= 0) & (first < owned)
    token = first + one  # [1]
    row = place // K
    at = x + (row // row_count) * x_block + (row % row_count) * x_row
    sums = tl.zeros((1, BH), tl.float32)
    for begin in tl.range(0, tl.where(mine, H, 0), BH, num_stages=5):
        h = begin + tl.arange(0, BH)
        live = (h < H)[None, :]
        value = tl.load(at + h, h < H, 0.0).to(tl.float32) * tl.load(norm + h, h < H, 0.0).to(tl.float32)
        sums += value[None, :] * read_head(head, scales, scale, token, h, live, head_stride, FORM, H)
    rest = tl.sum(sums, 1)
    for part in tl.static_range(PARTS):
        rounded = rest.to(own.dtype.element_ty)
        tl.store(own + place * PARTS + part + one, rounded)
        rest -= rounded.to(tl.float32)
    m = tl.arange(0, MP)
    inside = (m < tl.where(mine, M, 0))[None, :]
    line = tl.load(seen + token[:, None].to(tl.int64) * M + m[None, :], inside, 0.0)
    tl.store(shared + place * M + m[None, :], line.to(shared.dtype.element_ty), (m < M)[None, :])
