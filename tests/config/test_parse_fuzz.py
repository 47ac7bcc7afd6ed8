"""A damaged config either says the same numbers or is refused; it never breaks the parser."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_dspine.config import parse_config
from sglang_dspine.errors import CheckpointError

from .cases import YARN, raw_config

# field of DraftConfig -> where its number may stand
PLACES = {
    "hidden_size": ["hidden_size"],
    "num_layers": ["num_hidden_layers"],
    "num_heads": ["num_attention_heads"],
    "num_kv_heads": ["num_key_value_heads"],
    "head_dim": ["head_dim"],
    "intermediate_size": ["intermediate_size"],
    "vocab_size": ["vocab_size"],
    "block_size": ["block_size", "dflash_config.block_size"],
    "mask_token_id": ["mask_token_id", "dflash_config.mask_token_id"],
    "num_target_layers": ["num_target_layers", "dflash_config.num_target_layers"],
    "transfer_rank": ["dspine_config.transfer_rank"],
    "message_size": ["dspine_config.message_size"],
    "top_k": ["dspine_config.top_k"],
    "rms_norm_eps": ["rms_norm_eps"],
    "rope_theta": ["rope_theta", "rope_parameters.rope_theta"],
    "max_position_embeddings": ["max_position_embeddings"],
}
BASES = [
    raw_config("full"),
    raw_config("sliding"),
    raw_config("full", rope_parameters={"rope_theta": 1e6, **YARN}),
    raw_config("full", rope_parameters=None, rope_theta=1e6, rope_scaling=YARN),
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 70)
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["full_attention", "sliding_attention", "yarn", "default", "qwen3", "DSpineDraftModel"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def at(raw, path):
    for key in path.split("."):
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw


@st.composite
def damaged(draw):
    raw = json.loads(json.dumps(draw(st.sampled_from(BASES))))
    for _ in range(draw(st.integers(1, 3))):
        sections = [raw] + [value for value in raw.values() if isinstance(value, dict) and value]
        node = draw(st.sampled_from(sections))
        key = draw(st.sampled_from(sorted(node)))
        number = type(node[key]) in (int, float)
        change = draw(st.sampled_from(["scale", "scale", "element", "add", "remove", "replace"]))
        if change == "scale" and number:
            node[key] *= draw(st.integers(1, 3))
        elif change == "element" and isinstance(node[key], list) and node[key]:
            node[key][draw(st.integers(0, len(node[key]) - 1))] = draw(SCALARS)
        elif change == "add":
            node[draw(st.text(min_size=1, max_size=5))] = draw(VALUES)
        elif change == "remove" and len(node) > 1:
            del node[key]
        elif change == "replace":
            node[key] = draw(VALUES)
    return raw


@settings(max_examples=150, deadline=None)
@given(damaged())
def test_a_damaged_config_is_refused_or_says_the_same_numbers(raw):
    before = json.dumps(raw)
    try:
        config = parse_config(raw, "config.json")
    except CheckpointError as error:
        assert str(error).startswith("config.json")
        return
    assert json.dumps(raw) == before
    for name, places in PLACES.items():
        stated = [value for place in places if (value := at(raw, place)) is not None]
        assert all(value == getattr(config, name) and value is not True for value in stated), name
        assert stated or name == "num_target_layers"
    assert list(config.layer_types) == raw["layer_types"] and len(config.layer_types) == config.num_layers
    assert list(config.target_layer_ids) == at(raw, "dflash_config.target_layer_ids")
    assert 0 <= config.mask_token_id < config.vocab_size and config.block_size >= 2
    assert config.num_heads % config.num_kv_heads == 0 and config.top_k <= config.vocab_size
    assert ("sliding_attention" in config.layer_types) == (config.sliding_window is not None)


@settings(max_examples=50, deadline=None)
@given(st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)))
def test_any_json_at_all_is_refused_cleanly(raw):
    try:
        parse_config(raw, "config.json")
    except CheckpointError:
        return
    raise AssertionError("arbitrary JSON passed for a drafter")
