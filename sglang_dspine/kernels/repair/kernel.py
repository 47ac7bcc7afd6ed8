"""A row whose largest value is a number is left alone: one load, and the program ends."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["stride", "vocab"])
def repair_bad_rows(logits, most, stride, vocab, BLOCK: tl.constexpr):
    """One program a row. logits [R, >= V], changed in place; most [R]. See `naive`."""
    row = tl.program_id(0).to(tl.int64)
    largest = tl.load(most + row).to(tl.float32)
    if (largest != largest) | (largest == float("inf")) | (largest == float("-inf")):
        left = tl.zeros((BLOCK,), tl.int32)  # whether a number was met
        for start in range(0, vocab, BLOCK):
            at = start + tl.arange(0, BLOCK)
            value = tl.load(logits + row * stride + at, at < vocab, float("-inf"))
            wide = value.to(tl.float32)
            number = (wide == wide) & (wide < float("inf")) & (wide > float("-inf"))
            left |= number.to(tl.int32)
            tl.store(logits + row * stride + at, tl.where(number, wide, float("-inf")).to(value.dtype), at < vocab)
        if tl.max(left, 0) == 0:
            for start in range(0, vocab, BLOCK):
                at = start + tl.arange(0, BLOCK)
                tl.store(logits + row * stride + at, tl.zeros((BLOCK,), logits.dtype.element_ty), at < vocab)
