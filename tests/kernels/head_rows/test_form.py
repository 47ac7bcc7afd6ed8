"""Rows of a stored head in plain torch; the swizzle is SGLang's own."""

from __future__ import annotations

import pytest
import torch

from sglang_dspine.kernels.head_rows.form import StoredHead

from .quantise import fp8_head, nvfp4_head, nvfp4_parts, swizzled

VOCAB = 150


def test_rows_of_a_dense_head_are_its_own():
    weight = torch.randn(VOCAB, 32)
    ids = torch.tensor([[3, 149], [0, 3]])
    assert torch.equal(StoredHead(weight, 32).rows(ids, torch.float32), weight[ids])


@pytest.mark.parametrize("make", [fp8_head, nvfp4_head])
@pytest.mark.parametrize("hidden", [64, 80, 208])
def test_rows_of_a_quantised_head_are_the_dequantised_head_bit_for_bit(make, hidden):
    head, rows = make(VOCAB, hidden)
    ids = torch.randint(VOCAB, (4, 7), generator=torch.Generator().manual_seed(1))
    assert torch.equal(head.rows(ids, torch.float32), rows[ids])
    assert torch.equal(head.rows(ids, torch.bfloat16), rows[ids].bfloat16())


@pytest.mark.full  # importing SGLang costs more than everything else here
@pytest.mark.parametrize("vocab, hidden", [(150, 80), (128, 64), (300, 208)])
def test_the_swizzle_is_sglangs(vocab, hidden):
    utils = pytest.importorskip("sglang.srt.layers.quantization.utils")
    scales = nvfp4_parts(vocab, hidden)[1]
    assert torch.equal(utils.swizzle_blockscale(scales).view(torch.uint8), swizzled(scales).view(torch.uint8))


def test_scales_left_unswizzled_are_seen():
    head, rows = nvfp4_head(128, 64)
    scales = nvfp4_parts(128, 64)[1]
    plain = StoredHead(head.weight, 64, head.form, scales, head.scale)
    assert not torch.equal(plain.rows(torch.arange(128), torch.float32), rows)
