"""Rotary angles: plain, and YaRN as transformers reads the same config."""

import dataclasses
import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sglang_dspine.config import parse_config
from sglang_dspine.errors import DSpineError
from sglang_dspine.reference import FLOAT64
from sglang_dspine.reference.rope import frequencies, rotary, rotate

from .cases import VECTORS, few


def scaled(scaling, **changed):
    """A golden config.json with other rotary parameters, as the parser reads it."""
    raw = json.loads((VECTORS / "window" / "config.json").read_text()) | {"max_position_embeddings": 65536}
    rope = {"rope_theta": changed.pop("rope_theta", 1e4), "rope_type": "default"} | (scaling or {})
    return parse_config(raw | {"rope_parameters": rope} | changed, "config.json")


YARN = st.fixed_dictionaries(
    {
        "rope_type": st.just("yarn"),
        "factor": st.sampled_from([1.0, 2.0, 4.0, 32.0]),
        "original_max_position_embeddings": st.sampled_from([256, 4096, 32768]),
    },
    optional={
        "attention_factor": st.sampled_from([0.5, 1.0]),
        "beta_fast": st.sampled_from([16.0, 32.0]),
        "beta_slow": st.sampled_from([1.0, 4.0]),
        "mscale": st.just(0.7),
        "mscale_all_dim": st.sampled_from([0.5, 1.0]),
        "truncate": st.booleans(),
    },
)


@few
@given(scaling=YARN, theta=st.sampled_from([1e4, 1e6]), head_dim=st.sampled_from([32, 128]))
def test_yarn_is_what_transformers_computes(scaling, theta, head_dim):
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    theirs = transformers.Qwen3Config(
        head_dim=head_dim, max_position_embeddings=65536, rope_parameters=scaling | {"rope_theta": theta}
    )
    expected, amplitude = ROPE_INIT_FUNCTIONS["yarn"](theirs, torch.device("cpu"))
    config = scaled(scaling, rope_theta=theta, head_dim=head_dim)
    found, factor = frequencies(config, torch.float32)
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=0)
    assert factor == pytest.approx(amplitude)


def test_yarn_stretches_slow_pairs_and_keeps_fast_ones():
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    plain, _ = frequencies(scaled(None, head_dim=128), torch.float64)
    found, _ = frequencies(scaled(scaling, head_dim=128), torch.float64)
    assert found[0] == plain[0]
    assert found[-1] == plain[-1] / 4


def test_rotation_turns_pairs_and_keeps_lengths():
    config = scaled(None)
    x = torch.randn(5, config.head_dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    positions = torch.tensor([0, 1, 2, 100, 511])
    turned = rotate(x, *rotary(positions, config, torch.float64))
    assert torch.equal(turned[0], x[0])
    torch.testing.assert_close(turned.square().sum(-1), x.square().sum(-1), rtol=1e-6, atol=0)


def test_the_attention_factor_scales_what_is_rotated():
    scaling = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 4096}
    config = scaled(scaling | {"attention_factor": 0.5})
    x = torch.randn(3, config.head_dim, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    turned = rotate(x, *rotary(torch.tensor([0, 7, 5000]), config, torch.float64, FLOAT64))
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1) / 2)


def test_an_unknown_scaling_is_refused():
    config = dataclasses.replace(scaled(None), rope_scaling={"rope_type": "longrope"})
    with pytest.raises(DSpineError, match="longrope"):
        frequencies(config, torch.float32)
