"""Entries that would change the computation are refused, neutral ones pass."""

import pytest

from sglang_dspine.config import parse_config
from sglang_dspine.errors import CheckpointError
from tests.support.checkpoints import TINY

from .cases import raw_config

REFUSED = {
    "hidden_act": "gelu",
    "attention_bias": True,
    "partial_rotary_factor": 0.5,
    "dflash_config__causal": False,
    "dflash_config__projector_type": "domino",
    "dflash_config__selector_rank": 64,
    "dflash_config__final_logit_softcapping": 30.0,
    "dflash_config__attention_mode": "mla",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_feature_of_another_drafter_is_refused_by_name(name):
    with pytest.raises(CheckpointError) as caught:
        parse_config(raw_config(**{name: REFUSED[name]}), "config.json")
    message = str(caught.value)
    assert name.replace("__", ".") in message and f"found {REFUSED[name]!r}" in message


@pytest.mark.parametrize("changes", [{"dflash_config__causal": 1}, {"dflash_config__selector_rank": False}])
def test_a_value_of_the_wrong_type_does_not_pass_as_neutral(changes):
    with pytest.raises(CheckpointError, match="does not compute"):
        parse_config(raw_config(**changes), "config.json")


def test_quantization_config_is_refused_and_the_reason_given():
    with pytest.raises(CheckpointError) as caught:
        parse_config(raw_config(quantization_config={"quant_method": "fp8"}), "config.json")
    message = str(caught.value)
    assert "quantization_config is present" in message and "SGLang would take over the loading" in message


def test_neutral_values_and_training_settings_pass():
    raw = raw_config(
        dflash_config__causal=True,
        dflash_config__selector_rank=0,
        dspine_config__ce_weight=0.1,
        tie_word_embeddings=True,
        some_note="trained on a Tuesday",
    )
    assert parse_config(raw, "config.json") == TINY
