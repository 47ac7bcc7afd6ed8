"""Stored forms of an output head: those that are known give its rows, every other layout is left to the full copy."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from sglang_dspine.draft.head_form import quantised_form

from ..kernels.head_rows.quantise import fp8_head, nvfp4_head

VOCAB, HIDDEN = 200, 80  # neither a multiple of the swizzle's tile


def fp8_layer(**changes) -> tuple[SimpleNamespace, torch.Tensor]:
    head, rows = fp8_head(VOCAB, HIDDEN)
    layer = SimpleNamespace(weight=head.weight.t(), weight_scale=head.scales[:, None])
    return SimpleNamespace(**{**vars(layer), **changes}), rows


def nvfp4_layer(**changes) -> tuple[SimpleNamespace, torch.Tensor]:
    head, rows = nvfp4_head(VOCAB, HIDDEN)
    layer = SimpleNamespace(weight=head.weight, weight_scale_interleaved=head.scales, weight_scale_2=head.scale)
    return SimpleNamespace(**{**vars(layer), **changes}), rows


def rows_of(layer: SimpleNamespace) -> torch.Tensor:
    return quantised_form(layer, HIDDEN).rows(torch.arange(VOCAB), torch.float32)


def test_fp8_columns_with_a_scale_each_give_the_rows():
    layer, rows = fp8_layer()
    assert torch.equal(rows_of(layer), rows)


def test_fp8_with_one_scale_for_all_gives_the_rows():
    layer, _ = fp8_layer(weight_scale=torch.tensor(0.25))
    assert torch.equal(rows_of(layer), layer.weight.t().float() * 0.25)


def test_nvfp4_with_the_weights_own_scale_gives_the_rows():
    layer, rows = nvfp4_layer()
    assert torch.equal(rows_of(layer), rows)


def test_nvfp4_whose_scale_is_left_in_alpha_gives_the_rows():
    layer, rows = nvfp4_layer(weight_scale_2=None, input_scale_inv=torch.tensor(4.0), alpha=torch.tensor([0.003 / 4]))
    torch.testing.assert_close(rows_of(layer), rows, rtol=1e-6, atol=0)


UNKNOWN = {
    "FP8 without a scale": fp8_layer(weight_scale=None),
    "FP8 with two scales": fp8_layer(weight_scale=torch.ones(2)),
    "FP8 of another width": fp8_layer(weight=torch.zeros(HIDDEN + 8, VOCAB, dtype=torch.float8_e4m3fn)),
    "FP8 whose rows are not contiguous": fp8_layer(weight=torch.zeros(HIDDEN, VOCAB, dtype=torch.float8_e4m3fn)),
    "FP8 in blocks": fp8_layer(weight=torch.zeros(2, HIDDEN, VOCAB, dtype=torch.float8_e4m3fn)),
    "NVFP4 without swizzled scales": nvfp4_layer(weight_scale_interleaved=None),
    "NVFP4 of too few columns": nvfp4_layer(weight=torch.zeros(VOCAB, HIDDEN // 2 - 8, dtype=torch.uint8)),
    "NVFP4 whose scales are padded otherwise": nvfp4_layer(weight_scale_interleaved=torch.ones(256, 5)),
    "NVFP4 whose rows are not contiguous": nvfp4_layer(weight=torch.zeros(HIDDEN, VOCAB, dtype=torch.uint8).t()),
    "bytes with a scale": nvfp4_layer(weight_scale_interleaved=None, weight_scale=torch.ones(VOCAB)),
    "dense": (SimpleNamespace(weight=torch.zeros(VOCAB, HIDDEN), weight_scale=torch.ones(VOCAB)), None),
}  # fmt: skip


@pytest.mark.parametrize("layer", [layer for layer, _ in UNKNOWN.values()], ids=UNKNOWN)
def test_another_layout_is_not_known(layer):
    assert quantised_form(layer, HIDDEN) is None


def test_nvfp4_of_a_width_that_blocks_of_16_do_not_fill_is_not_known():
    layer, _ = nvfp4_layer()
    assert quantised_form(layer, HIDDEN - 8) is None


def test_the_narrowest_known_nvfp4_has_no_padding_columns():
    layer, rows = nvfp4_layer()
    layer.weight = layer.weight[:, : HIDDEN // 2].contiguous()
    assert torch.equal(rows_of(layer), rows)
