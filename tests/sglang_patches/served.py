"""SGLang's own DFLASH drafting for a hybrid target with ReplaySSM: what both forms of the answer must show."""

from __future__ import annotations

from unittest import mock

from sglang_dspine.kernels.ring_fold import commit_rings
from tests.support.engine import Request
from tests.support.models import dflash_drafter, hybrid_qwen35
from tests.support.oracle import assert_greedy, misses
from tests.support.pairs import EXTRA_BUFFER
from tests.support.prompts import random_prompts
from tests.support.replay import REPLAY, SERVERS, commits_shifted, mamba_pool

PROMPTS = random_prompts((20, 5, 33, 11, 70))


def served(engines, server: dict):
    draft = {"speculative_algorithm": "DFLASH", "speculative_draft_model_path": dflash_drafter()}
    return engines(hybrid_qwen35(), **draft, **server)


def send(engine):
    return engine.generate([Request(ids, {"max_new_tokens": 24, "ignore_eos": True}) for ids in PROMPTS])


def plain_fold():
    """SGLang's fold is Triton's; this machine runs the plain form of ours."""
    from sglang.kernels.ops.attention.linear import gdn_replayssm_spec_decode as rings

    return mock.patch.object(rings, "commit_gdn_replayssm_circular", commit_rings)


LONG_RING = {**REPLAY, "linear_replayssm_cache_len": 64}
ELSEWHERE = {  # servers in which something besides verify takes a state up
    "no extra buffer": LONG_RING,
    "mixed steps": {**LONG_RING, **EXTRA_BUFFER, "enable_mixed_chunk": True, "chunked_prefill_size": 64},
}


def check_elsewhere(engines, name: str) -> None:
    """A request goes on from the cache, or decodes beside prefill chunks, and keeps the target's text."""
    target, engine = hybrid_qwen35(), served(engines, ELSEWHERE[name])
    ids, joined = PROMPTS[2], random_prompts((75,), seed=5)[0]
    if name == "no extra buffer":
        first = engine.generate([Request(ids, {"max_new_tokens": 14, "ignore_eos": True})])[0]
        ids = [*ids, *first.output_ids, 5, 6, 7]
    running, other = engine.add_request(Request(ids, {"max_new_tokens": 40, "ignore_eos": True})), None
    engine.run_until(lambda: running.req is not None and len(running.output_ids) > 5)
    other = engine.add_request(Request(joined, {"max_new_tokens": 12, "ignore_eos": True}))
    engine.run_until(lambda: running.finished and other.finished)
    engine.settle()
    assert (running.cached_tokens > 0) == (name == "no extra buffer")
    for prompt, out in ((ids, running), (joined, other)):
        assert_greedy(target, prompt, out.output_ids)


def check(engines) -> None:
    """The target's text, cold and cached, with short and long rings; and a commit one row off is seen."""
    target = hybrid_qwen35()
    for server in SERVERS.values():
        engine = served(engines, server)
        assert mamba_pool(engine).mamba_cache.intermediate_ssm is None
        for cached in (False, True):
            outputs = send(engine)
            for ids, out in zip(PROMPTS, outputs, strict=True):
                assert_greedy(target, ids, out.output_ids)
            assert (outputs[-1].cached_tokens > 0) == cached
        assert max(length for out in outputs for length in out.accept_lengths) > 1
        engine.flush()
        for by in (-1, 1):
            with commits_shifted(by):
                outputs = send(engine)
            assert any(misses(target, ids, out.output_ids) for ids, out in zip(PROMPTS, outputs, strict=True))
            engine.flush()
