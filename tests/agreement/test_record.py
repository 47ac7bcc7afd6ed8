"""A recorded target wrote the text itself, and its layers are the ones the drafter taps."""

import os
import shutil
from dataclasses import replace

import pytest
import torch
from transformers import AutoConfig, AutoTokenizer

from sglang_dspine.agreement.record import BUILT_IN, NEW_TOKENS, check_target, record
from sglang_dspine.config.parse import load_config
from sglang_dspine.errors import DSpineError
from tests.support.models import MASK, dense_qwen3, dspine_drafter, hf_greedy, transformers_model


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


def test_a_target_of_another_width_depth_or_without_a_model_is_refused_before_it_is_read(tmp_path):
    config = load_config(dspine_drafter())
    check_target(dense_qwen3(), config, "cpu")
    for changed, said in (
        (replace(config, hidden_size=2 * config.hidden_size), "hidden_size differs from the target's"),
        (replace(config, num_target_layers=99), "num_target_layers differs from the target's"),
    ):
        with pytest.raises(DSpineError, match=said):
            check_target(dense_qwen3(), changed, "cpu")
    (tmp_path / "config.json").write_text("{}")
    for target in (tmp_path, tmp_path / "none"):
        with pytest.raises(DSpineError, match=rf"--target {target}: transformers cannot run it"):
            check_target(str(target), config, "cpu")


def test_prompts_that_leave_no_room_or_make_no_token_are_refused_before_it_is_read():
    config = load_config(dspine_drafter())
    with pytest.raises(DSpineError, match="makes no token of prompt 2; is it all there"):
        check_target(dense_qwen3(), config, "cpu", ("hello", ""))
    most = AutoConfig.from_pretrained(dense_qwen3()).max_position_embeddings - NEW_TOKENS
    room = "hello " * most
    with pytest.raises(DSpineError, match=rf"at most {most} tokens, .*; prompt 1 has \d+"):
        check_target(dense_qwen3(), config, "cpu", (room,))


def test_weights_cut_short_are_one_sentence(tmp_path):
    shutil.copytree(dense_qwen3(), tmp_path / "cut")
    for path in (tmp_path / "cut").glob("*.safetensors"):
        os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(DSpineError, match="transformers cannot run it"):
        record(str(tmp_path / "cut"), ["hello"], (0, 2), MASK)


@pytest.mark.parametrize("device", ["bogus", "meta", "cuda:99"])
def test_a_device_that_cannot_be_used_is_named(device):
    with pytest.raises(DSpineError, match=f"--device {device}: this PyTorch cannot use it .*; use cpu"):
        check_target(dense_qwen3(), load_config(dspine_drafter()), device)


def test_what_transformers_raises_while_it_writes_is_one_sentence(monkeypatch):
    monkeypatch.setattr(torch, "ones_like", out_of_memory)
    with pytest.raises(DSpineError, match="transformers cannot run it: CUDA out of memory"):
        record(dense_qwen3(), ["hello"], (0, 2), MASK)


def out_of_memory(tensor):
    raise torch.OutOfMemoryError("CUDA out of memory\nand more")


def test_the_built_in_prompts_differ():
    assert len(set(BUILT_IN)) == len(BUILT_IN) >= 8
