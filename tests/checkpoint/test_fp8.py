"""Row quantisation follows SGLang's kernel, and quantising a dequantised row gives the row back."""

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from sglang_dspine.checkpoint import fp8
from sglang_dspine.checkpoint.fp8 import Rounding, quantise_rows, rounding_of
from sglang_dspine.checkpoint.values import dequantise
from tests.gpu.fp8_rows import compare, half_way, vectors
from tests.support.fp8_rows import cases, every_pair, rules

VECTORS = sorted((Path(__file__).parents[1] / "data" / "fp8").glob("*.safetensors"))
assert VECTORS, "tests/data/fp8 holds what a GPU run made"
BOTH = pytest.mark.parametrize("rounding", list(Rounding))


def bits(quantised):
    return quantised[0].view(torch.uint8), quantised[1].view(torch.int32)


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(bits(a), bits(b), strict=True))


@pytest.fixture(scope="module")
def pairs():
    return every_pair().to(torch.bfloat16)


@BOTH
@pytest.mark.parametrize("case", [name for name in cases() if "subnormal" not in name])
def test_a_dequantised_row_quantises_to_itself(case, rounding):
    """Whatever arithmetic wrote it: one GPU's checkpoint keeps its values on another GPU."""
    for writer in Rounding:
        values, scale = quantise_rows(cases()[case], writer)
        again, scale_again = quantise_rows(dequantise(values, scale), rounding)
        normal = scale[:, 0] >= 2.0**-117  # below, the smallest values are no normal BF16 numbers any more
        assert torch.equal(again.float()[normal], values.float()[normal])
        ulps = (scale_again.view(torch.int32) - scale.view(torch.int32))[normal].abs().max() if normal.any() else 0
        assert ulps == 0 if writer is rounding else ulps <= 1


@BOTH
def test_the_peak_of_a_row_becomes_448_and_the_scale_is_its_448th_part(pairs, rounding):
    values, scale = quantise_rows(pairs, rounding)
    peak = pairs.float().abs().amax(1, keepdim=True)
    assert torch.equal(values.float().abs().amax(1, keepdim=True), torch.full_like(peak, 448.0))
    assert ((scale.double() * 448 / peak.double() - 1).abs() <= 2.0**-23).all()


@BOTH
def test_every_value_is_the_nearest_e4m3_number_to_w_over_scale(pairs, rounding):
    values, scale = quantise_rows(pairs, rounding)
    exact = pairs.double() / scale.double()
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).double()
    codes = codes[codes.isfinite()].unique()
    place = torch.searchsorted(codes, exact).clamp(1, len(codes) - 1)
    nearest = torch.minimum((exact - codes[place - 1]).abs(), (exact - codes[place]).abs())
    error = (values.double() - exact).abs()
    # a rounded reciprocal moves a quotient by 2^-23 of it: only half-way cases may go to either side
    assert (error - nearest <= exact.abs() * 2.0**-22).all()


def test_the_two_roundings_differ_only_half_way_between_e4m3_values(pairs):
    ieee, hopper = (quantise_rows(pairs, r)[0] for r in Rounding)
    differ = ieee.view(torch.uint8) != hopper.view(torch.uint8)
    assert differ.any()
    x = (pairs.double() * 448 / pairs.double().abs().amax(1, keepdim=True))[differ]
    middle = (ieee.double() + hopper.double())[differ] / 2
    assert ((x - middle).abs() <= middle.abs() * 2.0**-21).all()


def test_rows_of_zeros_have_scale_zero_and_stand_for_zeros():
    rows = torch.zeros(2, 8, dtype=torch.bfloat16)
    rows[1] = -0.0
    values, scale = quantise_rows(rows)
    assert not scale.any() and values.view(torch.uint8).tolist() == [[0] * 8, [0x80] * 8]
    few, scale = quantise_rows(rows, few_rows=True)
    assert not scale.any() and (few.float() == 448).all()
    assert not dequantise(few, scale).any()


def test_other_dtypes_are_cast_to_bf16_first():
    weight = torch.randn(8, 64) * torch.tensor([1.0, 1e-3] * 4)[:, None]
    assert equal(quantise_rows(weight), quantise_rows(weight.to(torch.bfloat16)))
    assert not torch.equal(quantise_rows(weight)[1], weight.abs().amax(1, keepdim=True) / 448)


@BOTH
def test_rows_are_independent_of_each_other_and_of_the_chunk(monkeypatch, rounding):
    weight = torch.randn(37, 24)
    whole = quantise_rows(weight, rounding)
    monkeypatch.setattr(fp8, "_CHUNK", 5 * 24)
    assert equal(whole, quantise_rows(weight, rounding))
    assert equal((whole[0][7:8], whole[1][7:8]), quantise_rows(weight[7:8], rounding))


def test_only_hopper_has_the_fast_arithmetic():
    found = {c: rounding_of(c) for c in [(8, 9), (9, 0), (10, 0), (12, 0), (12, 1)]}
    assert [c for c, r in found.items() if r is Rounding.HOPPER] == [(9, 0)]


def test_the_gpu_script_sees_a_wrong_rule_and_names_the_right_one():
    """A kernel that divides by the scale instead of multiplying by its reciprocal."""
    theirs = dict(rules(None))["s=max/448 q=w/s zero->0"]
    rows = cases()["every pair"]
    found = compare("every pair", False, rows, theirs, quantise_rows, None)
    assert found.values_off and not found.scales_off and found.rule == "matches: s=max/448 q=w/s zero->0"
    assert "row" in found.example
    same = compare("every pair", False, rows, quantise_rows, quantise_rows, None)
    assert not same.values_off and not same.rule


def test_the_vectors_of_a_run_are_small_and_hold_the_half_way_cases(pairs):
    saved = vectors(quantise_rows, 64)
    assert sum(tensor.nbytes for tensor in saved.values()) < 190_000
    close = half_way(pairs, 64)
    ieee, hopper = (quantise_rows(close, r)[0].view(torch.uint8) for r in Rounding)
    assert (ieee != hopper).any(1).sum() > 32
    assert torch.equal(close.float().abs().amax(1), pairs.float().abs().amax(1))


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
@pytest.mark.parametrize("few", [False, True], ids=["many rows", "few rows"])
def test_the_kernels_own_output_is_reproduced(path, few):
    with safe_open(path, framework="pt") as file:
        rounding = Rounding(file.metadata()["rounding"])
    saved, variant = load_file(path), "few" if few else "many"
    names = sorted(name[: -len(".weight")] for name in saved if name.endswith(".weight"))
    assert names
    for name in names:
        theirs = (saved[f"{name}.{variant}.values"], saved[f"{name}.{variant}.scale"])
        assert equal(quantise_rows(saved[f"{name}.weight"], rounding, few_rows=few), theirs), name
