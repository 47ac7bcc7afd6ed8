"""Bytes of recurrent states, against SGLang's own classes."""

from __future__ import annotations

import pytest
import torch

from sglang_dspine.preflight.state import read_recurrent, state_bytes

from .folders import HYBRID_27B

RECURRENT = read_recurrent(HYBRID_27B, 64)
SMALL = {**HYBRID_27B, "linear_num_value_heads": 2, "linear_num_key_heads": 1, "layer_types": ["linear_attention"] * 6}


def theirs(config, ssm, conv):
    from sglang.srt.configs.mamba_utils import Mamba2CacheParams, Mamba2StateDType, Mamba2StateShape

    values = config["linear_num_value_heads"] * config["linear_value_head_dim"]
    shape = Mamba2StateShape.create(
        tp_world_size=1, intermediate_size=values, n_groups=config["linear_num_key_heads"],
        num_heads=config["linear_num_value_heads"], head_dim=config["linear_value_head_dim"],
        state_size=config["linear_key_head_dim"], conv_kernel=config["linear_conv_kernel_dim"],
    )  # fmt: skip
    layers = [i for i, kind in enumerate(config["layer_types"]) if kind == "linear_attention"]
    return Mamba2CacheParams(shape=shape, layers=layers, dtype=Mamba2StateDType(conv=conv, temporal=ssm))


@pytest.mark.full  # the import alone takes long
@pytest.mark.parametrize("config", [HYBRID_27B, SMALL])
@pytest.mark.parametrize(("ssm", "conv"), [("bfloat16", "bfloat16"), ("float32", "bfloat16"), ("float32", "float32")])
def test_slots_and_rings_have_the_bytes_that_sglang_allocates(config, ssm, conv):
    expected = theirs(config, getattr(torch, ssm), getattr(torch, conv))
    words = ["--mamba-ssm-dtype", ssm, "--dtype", conv]
    found = state_bytes(read_recurrent(config, 64), words, 16, replay=True)
    assert found.slot == expected.mamba_cache_per_req
    assert found.verify == expected.replayssm_ring_bytes_per_req(16)


def test_a_slot_is_a_convolution_window_and_a_state_for_every_layer():
    window = (48 * 128 + 2 * 16 * 128) * 3  # values, keys and queries; three steps back
    found = state_bytes(RECURRENT, ["--mamba-ssm-dtype", "bfloat16"], 16)
    assert found.slot == 48 * (window * 2 + 48 * 128 * 128 * 2)
    assert state_bytes(RECURRENT, [], 16).slot == 48 * (window * 2 + 48 * 128 * 128 * 4)


def test_without_replay_a_verify_step_keeps_a_state_for_every_row():
    found = state_bytes(RECURRENT, ["--mamba-ssm-dtype", "bfloat16"], 16)
    assert not found.replay and found.verify == 16 * found.slot
    assert state_bytes(RECURRENT, ["--enable-linear-replayssm-spec"], 16).verify < found.verify / 10


@pytest.mark.parametrize(
    ("words", "slots"),
    [
        ([], 3),
        (["--mamba-radix-cache-strategy", "extra_buffer_lazy"], 4),
        (["--mamba-radix-cache-strategy", "extra_buffer"], 5),
        (["--mamba-radix-cache-strategy", "extra_buffer", "--disable-overlap-schedule"], 4),
        (["--disable-radix-cache"], 1),
    ],
)
def test_the_prefix_cache_decides_how_many_slots_a_request_needs(words, slots):
    assert state_bytes(RECURRENT, words, 16).slots == slots


def test_layers_are_counted_by_interval_where_the_config_lists_none():
    assert read_recurrent({k: v for k, v in HYBRID_27B.items() if k != "layer_types"}, 64).layers == 48
    assert read_recurrent({"hidden_size": 8}, 4) is None
