"""A checkpoint drafted layer by layer proposes what the reference drafter proposes."""

from dataclasses import replace

import pytest
import torch

from sglang_dspine.agreement import draft as module
from sglang_dspine.agreement.captures import Captures, Text, synthetic
from sglang_dspine.agreement.draft import Anchor, QuantisedInputs, anchors_of, draft
from sglang_dspine.checkpoint import Layout, load_checkpoint
from sglang_dspine.checkpoint.examine import examine_headers
from sglang_dspine.checkpoint.expected import is_fp8_linear
from sglang_dspine.checkpoint.fp8 import quantise_rows
from sglang_dspine.checkpoint.lazy import LazyWeights
from sglang_dspine.reference import Drafter
from tests.support.checkpoints import SLIDING, TINY, write_checkpoint


def read_of(folder) -> LazyWeights:
    return LazyWeights(examine_headers(folder), torch.float32)


def by_the_reference(folder, captures, anchors, arithmetic_of=lambda weights: QuantisedInputs()):
    config, weights = load_checkpoint(folder, torch.float32)
    embed = torch.cat([captures.embed, captures.mask[None]])
    config = replace(config, mask_token_id=len(embed) - 1)
    head = torch.cat([captures.head, torch.zeros_like(captures.mask[None])])
    drafter = Drafter(config, weights, embed, head, arithmetic=arithmetic_of(weights))
    for anchor in anchors:
        text = captures.texts[anchor.text]
        yield drafter.propose(text.taps[None, : anchor.at].float(), text.tokens[anchor.at : anchor.at + 1])


@pytest.mark.parametrize("config", [TINY, SLIDING], ids=["full", "window"])
@pytest.mark.parametrize("chunk", [1 << 28, 4 * 64 * 30], ids=["together", "in chunks"])
def test_proposals_are_the_references(tmp_path, monkeypatch, config, chunk):
    write_checkpoint(tmp_path, config)
    monkeypatch.setattr(module, "_TAPS", chunk)
    captures = synthetic(config)
    anchors = anchors_of(captures, config)
    counted = []
    found = draft(config, read_of(tmp_path), captures, anchors, counted.append)
    assert sum(counted) == len(anchors) and (len(counted) > 1) == (chunk < 1 << 20)
    for i, expected in enumerate(by_the_reference(tmp_path, captures, anchors)):
        assert torch.equal(found.candidates[i], expected.candidates[0]), i
        assert torch.equal(found.tokens[i], expected.tokens[0]), i
    assert len(found.tokens.unique()) > 5  # not one token everywhere


def test_inputs_of_fp8_layers_and_of_no_others_are_rounded_to_fp8(tmp_path):
    write_checkpoint(tmp_path, layout=Layout.FP8)
    captures = synthetic(TINY)
    anchors = anchors_of(captures, TINY)

    def all_linears(weights):
        return QuantisedInputs(weights={w.data_ptr() for name, w in weights.items() if is_fp8_linear(name)})

    found = draft(TINY, read_of(tmp_path), captures, anchors)
    expected = list(by_the_reference(tmp_path, captures, anchors, all_linears))
    assert torch.equal(found.candidates, torch.cat([e.candidates for e in expected]))
    assert torch.equal(found.tokens, torch.cat([e.tokens for e in expected]))
    unrounded = torch.cat([e.candidates for e in by_the_reference(tmp_path, captures, anchors)])
    assert not torch.equal(found.candidates, unrounded)  # the rounding shows


def test_a_rounded_input_is_what_sglang_multiplies_with():
    x, w = torch.randn(3, 5, 16), torch.randn(4, 16)
    values, scale = quantise_rows(x.view(15, 16))
    rounded = (values.float() * scale).view(3, 5, 16)
    assert torch.equal(QuantisedInputs(weights={w.data_ptr()}).product(x, w), rounded @ w.T)
    assert torch.equal(QuantisedInputs().product(x, w), x @ w.T)


def text_of(length: int, written: int) -> Text:
    return Text(torch.zeros(length, 64), torch.zeros(length, dtype=torch.int64), written)


def test_anchors_have_a_whole_block_of_the_targets_own_text_behind_them():
    base = synthetic(TINY)
    texts = (text_of(100, 40), text_of(30, 20), text_of(56, 40), text_of(400, 8))
    captures = Captures(texts, base.embed, base.head, base.mask, "here")
    anchors = anchors_of(captures, TINY)
    assert all(texts[a.text].written <= a.at <= len(texts[a.text].tokens) - TINY.block_size for a in anchors)
    of_text = [[a.at for a in anchors if a.text == i] for i in range(4)]
    assert of_text[0][0] == 40 and of_text[0][-1] == 84 and len(of_text[0]) == module.BLOCKS_PER_TEXT
    assert of_text[1] == [] and of_text[2] == [40] and len(set(of_text[3])) == len(of_text[3])


def test_without_written_text_each_text_gives_one_block_at_its_end():
    captures = synthetic(TINY)
    assert anchors_of(captures, TINY) == [Anchor(i, len(text.tokens) - 1) for i, text in enumerate(captures.texts)]
