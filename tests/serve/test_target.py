"""A target's config, before SGLang reads it."""

from __future__ import annotations

import json

import pytest

from sglang_dspine.serve.failure import ServeError
from sglang_dspine.serve.target import is_recurrent


@pytest.mark.parametrize(
    ("config", "recurrent"),
    [
        ({"layer_types": ["full_attention"]}, False),
        ({"num_hidden_layers": 2}, False),
        ({"layer_types": ["linear_attention", "full_attention"]}, True),
        ({"text_config": {"layer_types": ["linear_attention"]}, "vision_config": {}}, True),
        ({"text_config": {"linear_num_value_heads": 4}}, True),
    ],
)
def test_recurrent_layers_are_seen_in_either_form_of_a_config(tmp_path, config, recurrent):
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert is_recurrent(tmp_path) is recurrent


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(ServeError, match=f"MODEL={tmp_path}: no readable config.json"):
        is_recurrent(tmp_path)
