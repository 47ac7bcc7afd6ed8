"""FP8 weights become BF16 by one float32 product and one rounding."""

import torch

from sglang_dspine.checkpoint.values import dequantise


def test_every_e4m3_value_is_scaled_in_float32_and_rounded_once():
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    codes = codes[codes.float().isfinite()].reshape(2, 127)
    scale = torch.tensor([[0.00123456], [3.1415927]])
    exact = codes.double() * scale.double()  # 4 + 24 significant bits: exact in float64
    once = exact.float().to(torch.bfloat16)
    found = dequantise(codes, scale)
    assert found.dtype == torch.bfloat16 and torch.equal(found, once)
    # a scale rounded to BF16 first would give other weights
    assert not torch.equal(found, codes.to(torch.bfloat16) * scale.to(torch.bfloat16))


def test_zero_rows_stay_zero():
    assert not dequantise(torch.zeros(2, 3).to(torch.float8_e4m3fn), torch.zeros(2, 1)).any()
