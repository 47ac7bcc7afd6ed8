"""`read_head` under Triton's interpreter against the dequantised rows; `../test_interpreted.py` runs it."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from sglang_dspine.kernels.head_rows.form import StoredHead
from sglang_dspine.kernels.head_rows.read import read_head
from tests.kernels.head_rows.quantise import fp8_head, nvfp4_head


@triton.jit
def copy_rows(
    head, scales, scale, ids, out, n, head_stride,
    FORM: tl.constexpr, H: tl.constexpr, N: tl.constexpr, BH: tl.constexpr,
):  # fmt: skip
    place = tl.arange(0, N)
    token = tl.load(ids + place, place < n, 0)
    for start in range(0, H, BH):
        h = start + tl.arange(0, BH)
        live = (place < n)[:, None] & (h < H)[None, :]
        numbers = read_head(head, scales, scale, token, h, live, head_stride, FORM, H)
        tl.store(out + place[:, None] * H + h[None, :], numbers, live)


def read(head: StoredHead, ids: torch.Tensor) -> torch.Tensor:
    out = torch.full((len(ids), head.hidden), float("nan"))
    more = {**head.arguments(), **head.constants()}
    copy_rows[(1,)](ids=ids, out=out, n=len(ids), H=head.hidden, N=16, BH=64, **more)
    return out


def dense_head(vocab: int, hidden: int) -> tuple[StoredHead, torch.Tensor]:
    weight = torch.randn(vocab, hidden, generator=torch.Generator().manual_seed(0))
    return StoredHead(weight, hidden), weight


@pytest.mark.parametrize("make", [dense_head, fp8_head, nvfp4_head])
@pytest.mark.parametrize("hidden", [64, 208])
def test_rows_are_read_from_the_stored_form(make, hidden):
    head, rows = make(150, hidden)
    ids = torch.tensor([0, 149, 31, 32, 127, 128, 149, 5, 96])
    torch.testing.assert_close(read(head, ids), rows[ids], rtol=1e-6, atol=0)
