"""A recorded target wrote the text itself, and its layers are the ones the drafter taps."""

import torch
from transformers import AutoTokenizer

from sglang_dspine.agreement.record import BUILT_IN, record
from tests.support.models import MASK, dense_qwen3, hf_greedy, transformers_model


def test_texts_are_the_targets_greedy_ones_with_the_layers_asked_for():
    target = dense_qwen3()
    counted = []
    found = record(target, ["hello", "two words"], (0, 2), MASK, new_tokens=12, progress=lambda: counted.append(1))
    assert len(counted) == len(found.texts) == 2
    for prompt, text in zip(("hello", "two words"), found.texts, strict=True):
        ids = AutoTokenizer.from_pretrained(target)(prompt)["input_ids"]
        assert text.written == len(ids) and text.tokens.tolist() == [*ids, *hf_greedy(target, ids, 12)]
        out = transformers_model(target)(text.tokens[None], output_hidden_states=True)
        expected = torch.cat([out.hidden_states[1][0], out.hidden_states[3][0]], -1)
        assert torch.allclose(text.taps, expected, atol=1e-4)
    model = transformers_model(target)
    assert torch.equal(found.head, model.lm_head.weight) and torch.equal(found.mask, found.embed[MASK])


def test_the_built_in_prompts_differ():
    assert len(set(BUILT_IN)) == len(BUILT_IN) >= 8
