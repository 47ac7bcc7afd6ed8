"""FP8 weights become BF16 by one float32 product and one rounding."""

import pytest
import torch

from sglang_dspine.checkpoint.validate import _all_finite
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


NAN, INF = float("nan"), float("inf")
FLOATS = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(dtype, value) for dtype in FLOATS for value in (NAN, -NAN, INF, -INF)]
    + [(torch.float8_e4m3fn, NAN), (torch.float8_e4m3fn, -NAN)],  # e4m3fn has no infinity
)
def test_one_element_that_is_not_finite_is_seen_in_every_dtype(dtype, value):
    tensor = torch.randn(37).clamp(-9, 9).to(dtype)
    assert _all_finite(tensor)
    for place in (0, 17, 36):
        poisoned = tensor.float()
        poisoned[place] = value
        assert not _all_finite(poisoned.to(dtype))


def test_the_largest_e4m3_value_and_an_empty_tensor_are_finite():
    assert _all_finite(torch.tensor([448.0, -448.0]).to(torch.float8_e4m3fn)) and _all_finite(torch.empty(0, 4))
