"""A request's text does not depend on its company: others join, leave, are aborted or thrown out for want of memory."""

from __future__ import annotations

import pytest

from ..support import pairs
from ..support.engine import Request
from ..support.oracle import assert_greedy
from ..support.pairs import EXTRA_BUFFER, held_out_code
from ..support.prompts import random_prompts

PAGED = {"disable_overlap_schedule": False, "page_size": 16, "chunked_prefill_size": 16}
SERVERS = {
    "dense": (pairs.dense, PAGED),
    "trained": (pairs.demo, EXTRA_BUFFER),
}


def request(ids, steps: int, **sampling) -> Request:
    return Request(ids, {"max_new_tokens": steps, "ignore_eos": True, **sampling})


def prompts_for(pair_of, count: int) -> list[list[int]]:
    return held_out_code(count, 150) if pair_of is pairs.demo else random_prompts((20, 5, 33, 11, 48, 26)[:count])


@pytest.fixture(scope="module", params=["dense", pytest.param("trained", marks=pytest.mark.full)])
def running(request, engines):
    pair_of, server_args = SERVERS[request.param]
    pair = pair_of()
    return pair, prompts_for(pair_of, 4), pair.served(engines, **server_args)


@pytest.fixture
def server(running):
    running[2].flush()
    return running


def test_requests_join_and_leave_a_running_batch(server):
    pair, prompts, engine = server
    before = engine.pools
    lasting = engine.add_request(request(prompts[0], 60))
    others = []
    for ids, steps in zip(prompts[1:], (6, 20, 12), strict=True):
        seen = len(others)
        engine.run_until(lambda seen=seen: lasting.req is not None and len(lasting.rounds) > 2 * (seen + 1))
        others.append(engine.add_request(request(ids, steps)))
    engine.run_until(lambda: lasting.finished and all(out.finished for out in others))
    engine.settle()
    assert len({r.batch for r in lasting.rounds if r.mode == "decode"}) >= 3, "the batch kept its size"
    for ids, out in zip(prompts, [lasting, *others], strict=True):
        assert_greedy(pair.target, ids, out.output_ids)
    engine.flush()
    assert engine.pools == before


def test_an_abort_in_mid_run_disturbs_nobody_and_frees_everything(server):
    pair, prompts, engine = server
    before = engine.pools
    outputs = [engine.add_request(request(ids, 48)) for ids in prompts]
    engine.run_until(lambda: all(out.req is not None and len(out.output_ids) > 4 for out in outputs))
    engine.abort(outputs[1].rid)
    engine.abort(outputs[2].rid)
    engine.run_until(lambda: all(out.finished for out in outputs))
    engine.settle()
    assert [out.finish_reason["type"] for out in outputs] == ["length", "abort", "abort", "length"]
    for ids, out in zip(prompts, outputs, strict=True):
        assert_greedy(pair.target, ids, out.output_ids)
    assert all(len(out.output_ids) < 48 for out in outputs[1:3])
    engine.flush()
    assert engine.pools == before


def test_sampled_company_changes_no_greedy_text(server):
    pair, prompts, engine = server
    company = [{"temperature": 1.0}, {"temperature": 0.7, "top_p": 0.9, "top_k": 20}]
    sent = [request(prompts[0], 40), *(request(prompts[1], 40, **how) for how in company), request(prompts[2], 40)]
    outputs = engine.generate(sent)
    for ids, out in ((prompts[0], outputs[0]), (prompts[2], outputs[3])):
        assert_greedy(pair.target, ids, out.output_ids)
    vocab = engine.scheduler.model_config.vocab_size
    for out in outputs:
        assert len(out.output_ids) == 40 and all(0 <= token < vocab for token in out.output_ids)


# Requests that may stop early are admitted in the belief that they will; these never do.
TIGHT = {"max_total_tokens": 288, "schedule_conservativeness": 0.05}
RETRACTING = {
    "dense": (pairs.dense, TIGHT),
    "dense, overlapped, pages of 16": (pairs.dense, {**PAGED, **TIGHT}),
    "hybrid": (pairs.hybrid, TIGHT),
    "hybrid, overlapped": (pairs.hybrid, {**EXTRA_BUFFER, **TIGHT}),
}


@pytest.mark.parametrize("name", ["dense", *(pytest.param(n, marks=pytest.mark.full) for n in list(RETRACTING)[1:])])
def test_a_request_thrown_out_for_want_of_memory_resumes_its_text(engines, name):
    pair_of, server_args = RETRACTING[name]
    pair, prompts = pair_of(), random_prompts((20, 5, 33, 11))
    engine = pair.served(engines, **server_args)
    before = engine.pools
    outputs = engine.generate([request(ids, 80, ignore_eos=False) for ids in prompts])
    assert sum(out.req.retraction_count for out in outputs) > 0, "memory was never short"
    for ids, out in zip(prompts, outputs, strict=True):
        assert len(out.output_ids) == 80
        assert_greedy(pair.target, ids, out.output_ids)
    engine.flush()
    assert engine.pools == before
