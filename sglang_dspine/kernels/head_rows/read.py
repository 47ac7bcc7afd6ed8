"""Head rows inside a kernel."""

from __future__ import annotations

import triton
import triton.language as tl

DENSE = 0


@triton.jit
def read_head(head, scales, scale, token, h, live, stride, FORM: tl.constexpr, H: tl.constexpr):
    """Numbers h of the rows of tokens, fp32, zero where not live. token [K], h [BH] -> [K, BH]"""
    at = token[:, None].to(tl.int64) * stride
    return tl.load(head + at + h[None, :], live, 0.0).to(tl.float32)
