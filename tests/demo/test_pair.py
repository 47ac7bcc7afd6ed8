"""The stored pair: what every other part of the project leans on."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from demo.evaluate import HERE, measure
from demo.rounds import mean
from demo.text import held_out_prompts, stdlib_path
from sglang_dspine.checkpoint import examine

COUNT = 64


@pytest.fixture(scope="module")
def measured():
    prompts = held_out_prompts(stdlib_path(), 5, 200, seed=5)
    return prompts, measure(HERE, prompts, COUNT)


def test_accepted_length_on_held_out_code_is_at_least_three(measured):
    _, (lengths, _, _) = measured
    assert mean(lengths) >= 3.0


def test_the_text_is_the_targets_own_top_choice(measured):
    _, (_, text, differ) = measured
    assert text.shape[1] == 200 + COUNT and differ == 0


def test_zeroing_the_bridge_lowers_the_accepted_length(measured):
    prompts, (lengths, text, _) = measured
    zeroed, _, _ = measure(HERE, prompts, COUNT, bridge=False, text=text)
    assert mean(zeroed) < mean(lengths) - 1


def test_the_drafter_would_load_beside_the_target():
    examine(HERE / "draft").raise_problems()
    draft, target = (json.loads((HERE / d / "config.json").read_text()) for d in ("draft", "target"))
    assert draft["hidden_size"] == target["hidden_size"] and draft["vocab_size"] == target["vocab_size"]
    assert draft["num_target_layers"] == target["num_hidden_layers"]
    # The last layer's output is the one that transformers shows only after its norm.
    assert max(draft["dflash_config"]["target_layer_ids"]) < target["num_hidden_layers"] - 1


@pytest.mark.parametrize("part", ["target", "draft"])
def test_weights_are_stored_in_bfloat16(part):
    tensors = load_file(Path(HERE) / part / "model.safetensors")
    assert {t.dtype for t in tensors.values()} <= {torch.bfloat16, torch.bool}
    assert sum(t.numel() for t in tensors.values()) < 3.5e6
