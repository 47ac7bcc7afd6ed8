"""On the CPU stand-in, decode alone, in a batch, and verify of a block compute a row to the same bits."""

from __future__ import annotations

import pytest

from ..support import pairs
from ..support.engine import Request
from ..support.prompts import random_prompts

PROMPTS = random_prompts((3, 11, 20, 33, 64))
REQUESTS = [Request(ids, {"max_new_tokens": 24, "ignore_eos": True}, logprobs=2) for ids in PROMPTS]


def numbers(outputs):
    return [(out.output_ids, out.logprobs[:24]) for out in outputs]


@pytest.mark.parametrize("pair_of", [pairs.full_rank, pairs.hybrid])
def test_log_probabilities_are_equal_to_the_last_bit(engines, pair_of):
    pair = pair_of()
    plain = pair.plain(engines)
    alone = numbers(plain.generate([request])[0] for request in REQUESTS)
    plain.flush()
    assert numbers(plain.generate(REQUESTS)) == alone
    drafting = pair.served(engines)
    outputs = drafting.generate(REQUESTS)
    assert numbers(outputs) == alone
    assert max(length for out in outputs for length in out.accept_lengths) > 1
