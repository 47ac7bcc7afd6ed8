"""DSPINE, plain SGLang and transformers emit the same tokens in float32 (E1): every way a server can be set up."""

from __future__ import annotations

from functools import cache

import pytest

from ..support import pairs
from ..support.engine import Request
from ..support.oracle import assert_greedy, assert_same
from ..support.pairs import EXTRA_BUFFER, held_out_code
from ..support.prompts import random_prompts

OVERLAP = {"disable_overlap_schedule": False}
PAGES = {"page_size": 16}
FAST = {
    "dense": (pairs.dense, {}),
    "dense, overlapped, pages of 16, chunks of 16": (pairs.dense, {**OVERLAP, **PAGES, "chunked_prefill_size": 16}),
    "hybrid, overlapped": (pairs.hybrid, EXTRA_BUFFER),
    "trained, overlapped": (pairs.demo, EXTRA_BUFFER),
}
FULL = {
    "dense, window of 24": (pairs.dense, {**OVERLAP, "speculative_draft_window_size": 24}),
    "hybrid, chunks of 16": (pairs.hybrid, {"chunked_prefill_size": 16}),
    "dense, overlapped": (pairs.dense, OVERLAP),
    "dense, pages of 16": (pairs.dense, PAGES),
    "dense, overlapped, pages of 16": (pairs.dense, {**OVERLAP, **PAGES}),
    "dense, chunks of 5": (pairs.dense, {"chunked_prefill_size": 5}),
    "dense, overlapped, chunks of 7 mixed with decode": (
        pairs.dense,
        {**OVERLAP, "chunked_prefill_size": 7, "enable_mixed_chunk": True},
    ),
    "dense, pages of 16, window of 24": (pairs.dense, {**PAGES, "speculative_draft_window_size": 24}),
    "dense, width 3": (pairs.dense, {"speculative_num_draft_tokens": 3}),
    "dense, no prefix cache": (pairs.dense, {"disable_radix_cache": True}),
    "every token scored": (pairs.full_rank, OVERLAP),
    "hybrid": (pairs.hybrid, {}),
    "hybrid, overlapped, no prefix cache": (pairs.hybrid, {**OVERLAP, "disable_radix_cache": True}),
    "hybrid, overlapped, chunks of 64": (pairs.hybrid, {**EXTRA_BUFFER, "chunked_prefill_size": 64}),
    "hybrid, width 2": (pairs.hybrid, {"speculative_num_draft_tokens": 2}),
    "trained": (pairs.demo, {}),
    "trained, chunks of 64, window of 40": (
        pairs.demo,
        {**EXTRA_BUFFER, "chunked_prefill_size": 64, "speculative_draft_window_size": 40},
    ),
    "trained, width 5": (pairs.demo, {"speculative_num_draft_tokens": 5}),
}
SERVERS = [*FAST, *(pytest.param(name, marks=pytest.mark.full) for name in FULL)]


def workload(pair_of) -> tuple[list[list[int]], int]:
    """Prompts and the number of tokens to emit after each."""
    if pair_of is pairs.demo:
        return held_out_code(2, 150), 40
    return random_prompts((3, 11, 20, 33, 64)), 32


def send(engine, prompts, steps: int):
    return engine.generate([Request(ids, {"max_new_tokens": steps, "ignore_eos": True}) for ids in prompts])


@pytest.fixture(scope="session")
def plain_texts(engines):
    """What plain SGLang emits for a pair's workload, one request at a time."""

    @cache
    def texts(pair_of) -> list[list[int]]:
        prompts, steps = workload(pair_of)
        engine = pair_of().plain(engines)
        return [send(engine, [ids], steps)[0].output_ids for ids in prompts]

    return texts


@pytest.mark.parametrize("server", SERVERS)
def test_the_text_is_plain_sglangs_and_transformers(engines, plain_texts, server):
    pair_of, server_args = {**FAST, **FULL}[server]
    pair, (prompts, steps), expected = pair_of(), workload(pair_of), plain_texts(pair_of)
    for ids, text in zip(prompts, expected, strict=True):
        assert_greedy(pair.target, ids, text, "plain SGLang")
    engine = pair.served(engines, **server_args)
    before = engine.pools
    batched = send(engine, prompts, steps)
    alone = [send(engine, [ids], steps)[0] for ids in prompts]  # from the prefix cache, where there is one
    for outputs, how in ((batched, "batched"), (alone, "alone")):
        for ids, out, text in zip(prompts, outputs, expected, strict=True):
            assert len(out.output_ids) == steps
            assert_same(pair.target, ids, text, out.output_ids, f"{server}, {how}")
            assert_greedy(pair.target, ids, out.output_ids, f"{server}, {how}")
    lengths = [length for out in batched + alone for length in out.accept_lengths]
    assert max(lengths) > 1, "nothing was ever accepted: the run proves little"
    for out in batched + alone:
        emitted = [len(r.tokens) for r in out.rounds if r.mode == "decode"]
        assert emitted == out.accept_lengths
    engine.flush()
    assert engine.pools == before
