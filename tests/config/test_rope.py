"""RoPE: plain or YaRN, in the old place or the new, with nothing left to a default that differs elsewhere."""

import math
from types import SimpleNamespace

import pytest

from sglang_dspine.config import parse_config, render_config
from sglang_dspine.config.rope import sglang_rope_scaling
from sglang_dspine.errors import CheckpointError

from .cases import YARN, raw_config

THETA = {"rope_theta": 10000.0}


def parsed(**changes):
    return parse_config(raw_config(**changes), "config.json")


def test_yarn_is_read_from_rope_parameters_and_from_rope_scaling_alike():
    new = parsed(rope_parameters=THETA | YARN)
    old = parsed(rope_parameters=None, rope_theta=10000.0, rope_scaling={**YARN, "type": "yarn"})
    both = parsed(rope_parameters=THETA | YARN, rope_scaling=YARN)
    assert new == old == both
    assert new.rope_scaling["factor"] == 4.0 and new.rope_theta == 10000.0


def test_yarn_defaults_are_spelled_out():
    scaling = parsed(rope_parameters=THETA | YARN).rope_scaling
    assert scaling["attention_factor"] == pytest.approx(0.1 * math.log(4) + 1)
    assert (scaling["beta_fast"], scaling["beta_slow"], scaling["truncate"]) == (32.0, 1.0, True)


def test_yarn_settings_that_are_stated_are_kept():
    stated = {"attention_factor": 1.5, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False}
    assert parsed(rope_parameters=THETA | YARN | stated).rope_scaling == YARN | stated


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"attention_factor": 1.3},
        {"mscale": 0.7, "mscale_all_dim": 1.2},
        {"mscale": 0.7},
        {"beta_fast": 16},
    ],
)
def test_yarn_is_what_transformers_makes_of_the_same_numbers(extra):
    rope_utils = pytest.importorskip("transformers.modeling_rope_utils")
    from sglang_dspine.reference.rope import frequencies

    raw = raw_config(rope_parameters=THETA | YARN | extra)
    # stands for a Qwen3Config, whose import alone takes longer than this whole folder's tests
    view = SimpleNamespace(**raw, standardize_rope_params=lambda: None)
    theirs, magnitude = rope_utils.ROPE_INIT_FUNCTIONS["yarn"](view, "cpu")
    config = parse_config(raw, "config.json")
    ours, attention = frequencies(config, theirs.dtype)
    assert attention == pytest.approx(magnitude) and ours.tolist() == pytest.approx(theirs.tolist())


def test_the_range_of_yarn_is_factor_times_original():
    assert parsed().rope_range == 256
    assert parsed(rope_parameters=THETA | YARN | {"factor": 8.0}).rope_range == 512


def test_yarn_survives_rendering():
    config = parsed(rope_parameters=THETA | YARN | {"attention_factor": 1.5, "truncate": False})
    assert parse_config(render_config(config), "config.json") == config


def test_sglang_is_told_a_magnitude_that_differs_from_its_default():
    plain = sglang_rope_scaling(parsed(rope_parameters=THETA | YARN).rope_scaling)
    assert plain["attn_factor"] == pytest.approx(1.0) and "attention_factor" not in plain
    changed = parsed(rope_parameters=THETA | YARN | {"attention_factor": 2.0}).rope_scaling
    default = 0.1 * math.log(4) + 1
    assert sglang_rope_scaling(changed)["attn_factor"] * default == pytest.approx(2.0)
    assert sglang_rope_scaling(None) is None


def new(**rope):
    """A change of rope_parameters; theta is given."""
    return {"rope_parameters": THETA | rope}


REFUSED = [
    (new(rope_type="llama3"), ["rope_parameters.rope_type", "default or yarn", "'llama3'"]),
    (new(factor=2.0), ["rope_parameters.rope_type", "default or yarn", "nothing"]),
    (new(rope_type="yarn"), ["rope_parameters.factor is missing"]),
    (new(rope_type="yarn", factor=2.0), ["original_max_position_embeddings is missing"]),
    (new(**YARN | {"factor": 0.5}), ["factor is below 1", "found 0.5"]),
    (new(**YARN, extrapolation_factor=2), ["does not know", "['extrapolation_factor']"]),
    ({**new(**YARN), "rope_scaling": YARN | {"factor": 2.0}}, ["contradict"]),
    ({**new(**YARN), "rope_theta": 5e5}, ["rope_theta", "contradict", "10000.0", "500000.0"]),
    ({"rope_parameters": {"rope_type": "default"}}, ["rope_theta is missing"]),
    ({"rope_parameters": {"rope_theta": 1.0}}, ["rope_theta", "> 1", "found 1.0"]),
    ({"rope_parameters": THETA | {"partial_rotary_factor": 0.5}}, ["partial_rotary_factor", "found 0.5"]),
    ({"rope_parameters": {"full_attention": THETA}}, ["rope_theta is missing", "default or yarn"]),
    ({"rope_parameters": 3}, ["rope_parameters is no object", "found 3"]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "parts"), REFUSED)
def test_a_rope_we_cannot_honour_is_refused(changes, parts):
    with pytest.raises(CheckpointError) as caught:
        parsed(**changes)
    for part in parts:
        assert part in str(caught.value)
