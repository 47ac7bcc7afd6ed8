"""Head rows inside a kernel; the layouts are `form`'s."""

from __future__ import annotations

import triton
import triton.language as tl

DENSE = 0
FP8 = 1
NVFP4 = 2


@triton.jit
def read_head(head, scales, scale, token, h, live, stride, FORM: tl.constexpr, H: tl.constexpr):
    """Numbers h of the rows of tokens, fp32, zero where not live. token [K], h [BH] -> [K, BH]"""
    token = token[:, None].to(tl.int64)
    column = h[None, :]
    if FORM == 2:
        byte = tl.load(head + token * stride + column // 2, live, 0).to(tl.int32)
        code = (byte >> (4 * (column % 2))) & 15  # even columns in the low half
        exponent = (code >> 1) & 3
        half = (code & 1).to(tl.float32) * 0.5
        size = tl.where(exponent == 0, half, (1.0 + half) * (1 << exponent).to(tl.float32) * 0.5)
        number = tl.where(code > 7, -size, size)
        tiles: tl.constexpr = ((H + 15) // 16 + 3) // 4  # of 128 rows by 4 scales
        block = column // 16
        tile = (token // 128) * tiles + block // 4
        at = (tile * 32 + token % 32) * 16 + (token % 128) // 32 * 4 + block % 4
        number = number * tl.load(scales + at, live, 0.0).to(tl.float32) * tl.load(scale)
    else:
        number = tl.load(head + token * stride + column, live, 0.0).to(tl.float32)
        if FORM == 1:
            number = number * tl.load(scales + token)
    return number
