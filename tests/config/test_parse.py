"""Each number comes from config.json; what is missing or impossible is refused by name."""

import pytest

from sglang_dspine.config import load_config, parse_config
from sglang_dspine.errors import CheckpointError
from tests.support.checkpoints import SLIDING, TINY

from .cases import raw_config

WHERE = "draft/config.json"


def refusal(raw):
    with pytest.raises(CheckpointError) as caught:
        parse_config(raw, WHERE)
    return str(caught.value)


def test_every_number_is_the_one_in_the_file():
    assert parse_config(raw_config("full"), WHERE) == TINY
    assert parse_config(raw_config("sliding"), WHERE) == SLIDING


def test_a_wrapped_config_is_unwrapped():
    assert parse_config({"config": raw_config()}, WHERE) == TINY


@pytest.mark.parametrize("case", ["full", "window"])
def test_the_golden_configs_parse(case, vectors):
    config = load_config(vectors / case)
    assert config.block_size == 16 and config.num_proposals == 15
    assert config.window_of(0) == {"full": None, "window": 12}[case]


REQUIRED = [
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "vocab_size", "intermediate_size", "rms_norm_eps", "max_position_embeddings", "layer_types",
    "rope_parameters", "dflash_config__mask_token_id", "dflash_config__target_layer_ids",
    "dspine_config__transfer_rank", "dspine_config__message_size", "dspine_config__top_k", "dflash_config",
    "dspine_config",
]  # fmt: skip


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_number_is_refused_by_name(name):
    message = refusal(raw_config(**{name: None}))
    assert message.startswith(WHERE) and "is missing" in message and name.replace("__", ".") in message


def test_the_block_size_may_stand_in_either_place_but_must_stand_somewhere():
    assert parse_config(raw_config(block_size=None), WHERE) == TINY
    assert parse_config(raw_config(dflash_config__block_size=None), WHERE) == TINY
    message = refusal(raw_config(block_size=None, dflash_config__block_size=None))
    assert "dflash_config.block_size is missing" in message


def test_the_depth_of_the_target_may_be_unknown():
    assert parse_config(raw_config(num_target_layers=None), WHERE).num_target_layers is None


# change of the config -> what the message must say: the field, what was expected, what was found
REFUSED = [
    ({"block_size": 8}, ["block_size", "contradict", "expected block_size = 16", "found 8"]),
    ({"block_size": 1, "dflash_config__block_size": 1}, ["block_size", "integer >= 2", "found 1"]),
    ({"dflash_config__mask_token_id": 67}, ["mask_token_id", "an id in [0, 67)", "found 67"]),
    ({"dflash_config__mask_token_id": -1}, ["mask_token_id", "integer >= 0", "found -1"]),
    ({"dflash_config__target_layer_ids": [0, 4]}, ["target_layer_ids", "ids in [0, 4)", "found [4]"]),
    ({"dflash_config__target_layer_ids": [-1, 2]}, ["target_layer_ids", "ids in [0, 4)", "found [-1]"]),
    ({"dflash_config__target_layer_ids": [2, 2]}, ["strictly increasing", "found [2, 2]"]),
    ({"dflash_config__target_layer_ids": [2, 0]}, ["strictly increasing", "found [2, 0]"]),
    ({"dflash_config__target_layer_ids": []}, ["target_layer_ids", "non-empty list", "found []"]),
    ({"dflash_config__target_layer_ids": 3}, ["target_layer_ids", "non-empty list", "found 3"]),
    ({"num_target_layers": 2}, ["target_layer_ids", "ids in [0, 2)", "found [2]"]),
    ({"num_key_value_heads": 3}, ["num_attention_heads", "a multiple of 3", "found 4"]),
    ({"head_dim": 7}, ["head_dim", "even", "found 7"]),
    ({"dspine_config__top_k": 68}, ["dspine_config.top_k", "at most 67", "found 68"]),
    ({"dspine_config__top_k": 0}, ["dspine_config.top_k", "integer >= 1", "found 0"]),
    ({"dspine_config__transfer_rank": 33}, ["dspine_config.transfer_rank", "at most 32", "found 33"]),
    ({"hidden_size": 32.0}, ["hidden_size", "integer", "found 32.0"]),
    ({"hidden_size": True}, ["hidden_size", "integer", "found True"]),
    ({"hidden_size": "32"}, ["hidden_size", "integer", "found '32'"]),
    ({"rms_norm_eps": float("nan")}, ["rms_norm_eps", "finite number > 0", "found nan"]),
    ({"rms_norm_eps": 10**400}, ["rms_norm_eps", "finite number > 0"]),
    ({"architectures": ["Other"]}, ["architectures", "expected ['DSpineDraftModel']", "found ['Other']"]),
    ({"architectures": None}, ["architectures", "found nothing"]),
    ({"model_type": "llama"}, ["model_type", "'qwen3'", "found 'llama'"]),
    ({"dflash_config": 3}, ["dflash_config.mask_token_id is missing"]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "parts"), REFUSED)
def test_an_impossible_number_is_refused_with_what_was_expected_and_found(changes, parts):
    message = refusal(raw_config(**changes))
    assert message.startswith(WHERE)
    for part in parts:
        assert part in message, message


@pytest.mark.parametrize("raw", [None, [], 3, "x", {"config": []}, {"config": None}])
def test_what_is_no_object_is_no_config(raw):
    assert "expected a JSON object" in refusal(raw)


def test_all_problems_are_reported_at_once():
    message = refusal(raw_config(hidden_size=0, vocab_size=None, dspine_config__top_k="many"))
    assert message.startswith(f"{WHERE}: 3 problems")
    assert "hidden_size" in message and "vocab_size" in message and "dspine_config.top_k" in message
