"""Layer types, window and causality must tell one story."""

import pytest

from sglang_dspine.config import parse_config
from sglang_dspine.errors import CheckpointError
from tests.support.checkpoints import TINY

from .cases import raw_config

FULL, SLIDING = "full_attention", "sliding_attention"

REFUSED = [
    ("full", {"sliding_window": 8, "use_sliding_window": True}, ["all full_attention", "sliding_window 8"]),
    ("full", {"sliding_window": 8, "use_sliding_window": None}, ["all full_attention", "sliding_window 8"]),
    ("full", {"use_sliding_window": True}, ["all full_attention", "use_sliding_window True"]),
    ("sliding", {"sliding_window": None}, ["without a window", "sliding_window None"]),
    ("sliding", {"use_sliding_window": False}, ["without a window", "use_sliding_window False"]),
    ("sliding", {"use_sliding_window": None}, ["without a window", "use_sliding_window None"]),
    ("sliding", {"sliding_window": 0}, ["sliding_window", "integer >= 1", "found 0"]),
    ("sliding", {"layer_types": [SLIDING]}, ["layer_types", "2 entries", "found 1"]),
    ("full", {"layer_types": [FULL] * 3}, ["layer_types", "2 entries", "found 3"]),
    ("full", {"layer_types": [FULL, "chunked_attention"]}, ["layer_types", "['chunked_attention']"]),
    ("full", {"layer_types": FULL}, ["layer_types", "non-empty list"]),
    ("full", {"is_causal": False}, ["is_causal is false", "expected true"]),
    ("full", {"is_causal": "yes"}, ["is_causal", "true or false", "found 'yes'"]),
]  # fmt: skip


@pytest.mark.parametrize(("base", "changes", "parts"), REFUSED)
def test_a_contradiction_of_the_attention_is_refused(base, changes, parts):
    with pytest.raises(CheckpointError) as caught:
        parse_config(raw_config(base, **changes), "config.json")
    for part in parts:
        assert part in str(caught.value)


def test_a_window_switched_off_by_name_is_no_contradiction():
    raw = raw_config("full", sliding_window=4096, use_sliding_window=False)
    assert parse_config(raw, "config.json").sliding_window is None


def test_layers_may_mix_window_and_full_attention():
    config = parse_config(raw_config("sliding", layer_types=[FULL, SLIDING]), "config.json")
    assert [config.window_of(layer) for layer in (0, 1)] == [None, 12]


def test_causality_need_not_be_stated():
    assert parse_config(raw_config(is_causal=None), "config.json") == TINY
