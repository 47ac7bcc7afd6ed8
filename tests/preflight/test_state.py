"""Bytes of recurrent states, against SGLang's own classes."""

from __future__ import annotations

import pytest
import torch

from sglang_dspine.preflight.state import BYTES, read_recurrent, state_bytes

from .folders import HYBRID_27B

RECURRENT = read_recurrent(HYBRID_27B, 64)
TINY = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_value_head_dim": 16, "linear_key_head_dim": 16,
    "linear_conv_kernel_dim": 4, "layer_types": ["linear_attention"] * 3 + ["full_attention"] * 3,
}  # fmt: skip
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
    recurrent = read_recurrent(config, 64)
    assert state_bytes(recurrent, words, 16, replay=True).slot == expected.mamba_cache_per_req
    assert recurrent.ring(16, BYTES[conv]) == expected.replayssm_ring_bytes_per_req(16)


@pytest.mark.full
@pytest.mark.parametrize("replay", [True, False])
@pytest.mark.parametrize(("ssm", "conv"), [("bfloat16", "bfloat16"), ("float32", "float32")])
def test_a_request_takes_the_bytes_that_sglangs_pool_takes_for_it(monkeypatch, ssm, conv, replay):
    """The pool in the layout it has on a GPU, for 2 and for 3 requests: the difference is one request's."""
    from sglang.srt.mem_cache import memory_pool

    from sglang_dspine.commit.state_report import Scratch

    monkeypatch.setattr(memory_pool, "_is_cpu", False)
    params = theirs(TINY, getattr(torch, ssm), getattr(torch, conv))
    made = [
        memory_pool.MambaPool(
            size=4, spec_state_size=requests, cache_params=params, mamba_layer_ids=params.layers, device="cpu",
            speculative_num_draft_tokens=16, speculative_eagle_topk=1, enable_linear_replayssm_spec=replay,
        )
        for requests in (2, 3)
    ]  # fmt: skip
    one = (made[1].mem_usage - made[0].mem_usage) * (1 << 30)
    words = ["--mamba-ssm-dtype", ssm, "--dtype", conv]
    planned = {on: state_bytes(read_recurrent(TINY, 6), words, 16, replay=on).verify for on in (True, False)}
    assert one == planned[replay]
    found = Scratch.of(made[0], ring=16, width=16)
    assert (found.replay, found.held, found.other) == (replay, planned[replay], planned[not replay])


def test_a_slot_is_a_convolution_window_and_a_state_for_every_layer():
    window = (48 * 128 + 2 * 16 * 128) * 3  # values, keys and queries; three steps back
    found = state_bytes(RECURRENT, ["--mamba-ssm-dtype", "bfloat16"], 16)
    assert found.slot == 48 * (window * 2 + 48 * 128 * 128 * 2)
    assert state_bytes(RECURRENT, [], 16).slot == 48 * (window * 2 + 48 * 128 * 128 * 4)


def test_without_replay_a_verify_step_keeps_a_state_for_every_row():
    found = state_bytes(RECURRENT, ["--mamba-ssm-dtype", "bfloat16"], 16)
    windows = 48 * (48 * 128 + 2 * 16 * 128) * 18 * 2  # 16 rows and two steps before them
    assert not found.replay and found.verify == 16 * 48 * 48 * 128 * 128 * 2 + windows


@pytest.mark.report(2)
def test_at_27b_shape_width_16_and_bfloat16_replay_takes_a_tenth_of_the_scratch_or_less():
    words = ["--mamba-ssm-dtype", "bfloat16"]
    plain, replay = (state_bytes(RECURRENT, words, 16, replay=on).verify for on in (False, True))
    assert (plain, replay) == (1_225_654_272, 43_008_000) and plain > 28 * replay


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
