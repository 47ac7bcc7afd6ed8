"""The accepted lengths that `sglang-dspine accept` computes are those of SGLang's rounds, anchor by anchor."""

from __future__ import annotations

import pytest
import torch

from demo.dflash import FlashDrafter, save_flash
from sglang_dspine.acceptance.arm import parse_arm
from sglang_dspine.acceptance.capture import Target
from sglang_dspine.acceptance.count import accepted_lengths, truth_behind
from sglang_dspine.acceptance.draft import needs_of, open_proposer

from ..support import pairs
from ..support.engine import Request
from ..support.models import dense_qwen3, dflash_drafter, dspine_drafter
from ..support.prompts import random_prompts

pytestmark = pytest.mark.full
STEPS = 40
PROMPTS = random_prompts((5, 17, 40))
DRAFTERS = {"DFLASH": dflash_drafter, "DSPINE": dspine_drafter}


@pytest.mark.parametrize("algorithm", DRAFTERS)
def test_each_round_of_the_server_accepts_what_is_computed_offline(engines, algorithm):
    folder = DRAFTERS[algorithm]()
    engine = engines(dense_qwen3(), speculative_algorithm=algorithm, speculative_draft_model_path=folder)
    requests = [Request(ids, {"max_new_tokens": STEPS, "ignore_eos": True}) for ids in PROMPTS]
    target, arm = Target(dense_qwen3(), "float32", "cpu"), parse_arm(f"a {folder}")
    needs, drafter = needs_of(arm), open_proposer(arm, target.ends, torch.float32, "cpu")
    compared = []
    for ids, out in zip(PROMPTS, engine.generate(requests), strict=True):
        captured = target.capture([*ids, *out.output_ids], needs.taps)
        served, at = [], len(ids)  # the first token comes from the prefill
        places = []
        for length in out.accept_lengths:
            if at + needs.width > len(captured.tokens):
                break  # cut by the end of the text
            places.append(at)
            served.append(length)
            at += length
        proposals = drafter.propose(captured.taps.flatten(1), captured.tokens, places, needs.width)
        truth = truth_behind(captured.tokens, captured.best, places, needs.width, "recorded")
        assert accepted_lengths(proposals, truth).tolist() == served
        compared += served
    assert len(compared) > 20 and max(compared) > 2 and min(compared) < 3


def test_what_the_demo_trains_is_served_by_sglangs_dflash(engines, tmp_path):
    torch.manual_seed(0)
    save_flash(FlashDrafter(), tmp_path, 8192)
    pair = pairs.demo()
    engine = engines(pair.target, speculative_algorithm="DFLASH", speculative_draft_model_path=str(tmp_path))
    (prompt,) = pairs.held_out_code(1, 60)
    (out,) = engine.generate([Request(prompt, {"max_new_tokens": 12, "ignore_eos": True})])
    target = Target(pair.target, "float32", "cpu")
    assert tuple(out.output_ids) == target.continued(prompt, 12)[60:]
    assert sum(out.accept_lengths) == 11
