"""NVFP4 as ModelOpt stores it, spelled out; and the whole quantisation where ModelOpt is installed."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

from demo.nvfp4 import dequantised, quantise, write_plain
from demo.text import held_out_prompts, stdlib_path

from ..kernels.head_rows.quantise import nvfp4_parts


def test_packed_numbers_are_spelled_out_in_place_and_scales_are_gone():
    packed, scales, scale, rows = nvfp4_parts(8, 64)
    found = dequantised(
        {
            "lm_head.weight": packed, "lm_head.weight_scale": scales, "lm_head.weight_scale_2": torch.tensor(scale),
            "lm_head.input_scale": torch.ones(()), "model.norm.weight": torch.ones(4, dtype=torch.bfloat16),
        }
    )  # fmt: skip
    assert set(found) == {"lm_head.weight", "model.norm.weight"}
    assert all(t.dtype == torch.float32 for t in found.values())
    torch.testing.assert_close(found["lm_head.weight"], rows)


@pytest.mark.full
def test_modelopt_quantises_the_target_with_its_head_and_fused_linears_share_scales(tmp_path):
    pytest.importorskip("modelopt", reason="pip install nvidia-modelopt==0.47.0")
    quantise(tmp_path / "nvfp4", held_out_prompts(stdlib_path(), 4, 64, seed=1))
    tensors = load_file(tmp_path / "nvfp4" / "model.safetensors")
    assert tensors["lm_head.weight"].dtype == torch.uint8
    layer = "model.layers.0.linear_attn."
    one, other = (tensors[f"{layer}{name}.weight_scale_2"] for name in ("in_proj_qkv", "in_proj_z"))
    assert one == other
    config = json.loads((tmp_path / "nvfp4" / "config.json").read_text())["quantization_config"]
    assert config["quant_algo"] == "NVFP4" and config["kv_cache_scheme"]["num_bits"] == 8
    write_plain(tmp_path / "nvfp4", tmp_path / "plain")
    plain = load_file(tmp_path / "plain" / "model.safetensors")
    original = load_file("demo/target/model.safetensors")
    assert set(plain) == set(original)
    for name, weight in original.items():
        error = (plain[name] - weight.float()).norm() / weight.float().norm()
        assert error < 0.12, name
