"""The harness itself: plain SGLang on the CPU stand-in says what transformers says, token for token (E1)."""

from __future__ import annotations

import pytest

from ..support.engine import Request
from ..support.models import dense_qwen3, hf_greedy, hybrid_qwen35
from ..support.prompts import random_prompts

STEPS = 24
PROMPTS = random_prompts((3, 11, 20, 33, 64, 7))
TARGETS = {"dense": dense_qwen3, "hybrid": hybrid_qwen35}
EXTRA_BUFFER = {"mamba_radix_cache_strategy": "extra_buffer", "disable_overlap_schedule": False}
SERVERS = {
    "dense": ("dense", {}),
    "hybrid overlapped": ("hybrid", EXTRA_BUFFER),
    "dense overlapped, chunked": ("dense", {"disable_overlap_schedule": False, "chunked_prefill_size": 16}),
    "dense in pages": ("dense", {"page_size": 16}),
    "hybrid": ("hybrid", {}),
    "hybrid chunked": ("hybrid", {"chunked_prefill_size": 16}),
}
FAST = ("dense", "hybrid overlapped")


def requests_of(prompts, steps=STEPS):
    return [Request(ids, {"max_new_tokens": steps, "ignore_eos": True}) for ids in prompts]


@pytest.fixture(
    scope="module",
    params=[name if name in FAST else pytest.param(name, marks=pytest.mark.full) for name in SERVERS],
)
def server(request, engines):
    target, server_args = SERVERS[request.param]
    path = TARGETS[target]()
    return path, engines(path, **server_args)


def test_text_is_that_of_transformers_batched_alone_and_from_the_cache(server):
    path, engine = server
    expected = [hf_greedy(path, ids, STEPS) for ids in PROMPTS]
    batched = engine.generate(requests_of(PROMPTS))
    assert [out.output_ids for out in batched] == expected
    again = [engine.generate(requests_of([ids]))[0] for ids in PROMPTS]
    assert [out.output_ids for out in again] == expected
    followed = engine.generate(requests_of([ids + text for ids, text in zip(PROMPTS, expected, strict=True)]))
    assert [out.output_ids for out in followed] == [
        hf_greedy(path, ids + text, STEPS) for ids, text in zip(PROMPTS, expected, strict=True)
    ]


def test_a_stopped_batch_leaves_every_slot_free(server):
    _, engine = server
    engine.flush()
    before = engine.pools
    outputs = [engine.add_request(request) for request in requests_of(PROMPTS, steps=200)]
    engine.run_until(lambda: all(out.req is not None and len(out.output_ids) > 3 for out in outputs))
    for out in outputs:
        engine.abort(out.rid)
    engine.run_until(lambda: all(out.finished for out in outputs))
    assert {out.finish_reason["type"] for out in outputs} == {"abort"}
    engine.flush()
    assert engine.pools == before


def test_cached_prompts_are_not_computed_again(engines):
    engine = engines(dense_qwen3())
    first, second = (engine.generate(requests_of([PROMPTS[4]]))[0] for _ in range(2))
    assert (first.cached_tokens, second.cached_tokens) == (0, len(PROMPTS[4]) - 1)


def test_recurrent_snapshots_are_reused(engines):
    engine = engines(hybrid_qwen35(), **EXTRA_BUFFER, mamba_track_interval=64)
    prompt = random_prompts((150,))[0]
    expected = hf_greedy(hybrid_qwen35(), prompt, STEPS)
    first, second = (engine.generate(requests_of([prompt]))[0] for _ in range(2))
    assert (first.cached_tokens, second.cached_tokens) == (0, 128)
    assert first.output_ids == second.output_ids == expected


def test_log_probabilities_belong_to_the_tokens(engines):
    engine = engines(dense_qwen3())
    (out,) = engine.generate([Request(PROMPTS[2], {"max_new_tokens": 5, "ignore_eos": True}, logprobs=3)])
    best = [max(row, key=row.get) for row in out.top_logprobs]
    assert best == out.output_ids
    assert [row[token] for row, token in zip(out.top_logprobs, best, strict=True)] == out.logprobs
