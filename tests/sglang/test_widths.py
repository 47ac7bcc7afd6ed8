"""Widths that change from round to round leave every text as plain decode has it (E1)."""

from __future__ import annotations

import json
from itertools import pairwise
from unittest import mock

import pytest

from sglang_dspine.worker import round as round_module

from ..support import pairs
from ..support.engine import Request
from ..support.oracle import assert_greedy
from ..support.pairs import EXTRA_BUFFER, held_out_code
from ..support.prompts import random_prompts
from ..support.reference_rounds import Comparison, compare
from ..support.round_log import logged_rounds

# batch 1, 2, ...: every step up or down of the sweep below crosses a change of width, through plain decode and back
WIDTHS = [8, 6, 1, 4, 4, 2, 8, 3, 3, 1, 5, 5, 1, 7, 2, 4]
ROOMY = {"max_running_requests": 20, "max_mamba_cache_size": 128, "max_total_tokens": 8192}
OVERLAP = {"disable_overlap_schedule": False}
SERVERS = {
    "dense": (pairs.dense, {**OVERLAP, "page_size": 16}),
    "hybrid": (pairs.hybrid, {"mamba_radix_cache_strategy": "no_buffer"}),
    "trained": (pairs.demo, EXTRA_BUFFER),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("sps") / "sps.json"
    raw = {"version": 1, "widths": WIDTHS, "provenance": {"gpu": "none", "source": "a test"}}
    path.write_text(json.dumps(raw))
    return str(path)


def request(ids, steps: int, **sampling) -> Request:
    return Request(ids, {"max_new_tokens": steps, "ignore_eos": True, **sampling})


def serve(pair, engines, table, **server_args):
    return pair.served(engines, speculative_dspark_sps_table_path=table, **ROOMY, **server_args)


def sweep(engine, prompts, pace: int) -> list:
    """Batch 1 -> 16 -> 3: one request, then the others one by one, and all but three leave early.

    pace: tokens that a request is given for each one that is still to join.
    """
    outputs = [engine.add_request(request(prompts[0], 20 * pace))]
    for i, ids in enumerate(prompts[1:], start=1):
        engine.run_until(lambda: any(r.mode == "decode" for r in outputs[-1].rounds))
        outputs.append(engine.add_request(request(ids, 20 * pace if i < 3 else 32 + pace * (15 - i))))
    engine.run_until(lambda: all(out.finished for out in outputs))
    engine.settle()
    return outputs


def decode_batches(outputs) -> set[int]:
    return {r.batch for out in outputs for r in out.rounds if r.mode == "decode"}


@pytest.mark.parametrize("server", ["hybrid", *(pytest.param(s, marks=pytest.mark.full) for s in ("dense", "trained"))])
def test_a_sweep_of_batch_sizes_with_changing_widths_emits_the_targets_text(engines, table, server):
    pair_of, server_args = SERVERS[server]
    pair = pair_of()
    prompts = held_out_code(16, 60) if pair_of is pairs.demo else random_prompts([5 + 3 * i for i in range(16)])
    engine = serve(pair, engines, table, **server_args)
    before = engine.pools
    outputs = sweep(engine, prompts, pace=32 if pair_of is pairs.demo else 14)
    for ids, out in zip(prompts, outputs, strict=True):
        assert_greedy(pair.target, ids, out.output_ids, server)
    assert {1, 16} <= decode_batches(outputs) and len(decode_batches(outputs)) > 8, "the batch kept its size"
    for out in outputs:  # no round emits more than the width of its batch
        for r in out.rounds:
            assert r.mode != "decode" or r.accepted <= WIDTHS[r.batch - 1]
    used = engine.draft_worker.widths.metrics.report()["rounds_by_width"]
    assert set(used) >= {"1", "2", "3", "4", "8"}
    engine.flush()
    assert engine.pools == before


@pytest.mark.parametrize("fed", [True, False], ids=["fed", "planted: not fed"])
def test_narrow_rounds_and_those_after_plain_decode_propose_what_the_reference_does(engines, table, fed):
    """A draft of w rows is the first w rows of the block, and plain decode has fed the draft's KV."""
    pair, ids = pairs.demo(), held_out_code(1, 120)[0]
    engine = serve(pair, engines, table, grammar_backend="xgrammar")
    widths, commit = engine.draft_worker.widths, round_module._commit_context

    def starved(worker, block, *rest) -> None:
        if fed or block.width > 1:
            commit(worker, block, *rest)

    out = engine.add_request(request(ids, 90))
    with logged_rounds() as log, mock.patch.object(round_module, "_commit_context", starved):
        for tokens, width in ((20, 8), (50, 1), (65, 3), (80, 6), (90, 8)):
            widths.force(width)
            engine.run_until(lambda tokens=tokens: out.req is not None and len(out.output_ids) >= tokens)
        engine.settle()
    widths.force(None)
    assert_greedy(pair.target, ids, out.output_ids)  # whatever the draft knows
    text, compared = [*ids, *out.req.output_ids], Comparison()
    rounds = [r for r in log.of(out.rid) if r.length + 1 < len(text)]
    assert {len(r.proposals) + 1 for r in rounds} == {8, 1, 3, 6}
    for width in (8, 3, 6):
        compare(pair, text, [r for r in rounds if len(r.proposals) + 1 == width], compared)
    if fed:
        compared.holds()
    else:
        with pytest.raises(AssertionError, match="differ"):
            compared.holds()


@pytest.mark.full
def test_a_compact_window_follows_the_width(engines, table):
    pair, ids = pairs.dense(), random_prompts((40,))[0]
    engine = serve(pair, engines, table, speculative_draft_window_size=24)
    out = engine.add_request(request(ids, 60))
    for count, width in enumerate((8, 1, 3, 8, 2), start=1):
        engine.draft_worker.widths.force(width)
        engine.run_until(lambda count=count: out.req is not None and len(out.output_ids) >= 12 * count)
    engine.settle()
    assert_greedy(pair.target, ids, out.output_ids)


CASES = {
    "plain": {},
    # not both kinds at once: plain SGLang applies its penalisers in the order of a set, another one in each process
    "additive penalties": {"frequency_penalty": 0.4, "presence_penalty": 0.3},
    "repetition penalty": {"repetition_penalty": 1.1},
    "minimum length": {"min_new_tokens": 20, "stop_token_ids": [32, 10], "ignore_eos": False},
    "bias": {"logit_bias": {"101": -100.0, "32": 2.5}},
    "regex": {"regex": r"(def|class) [a-z_]{3,12}\(self\):", "ignore_eos": False},
}


def adjusted() -> list[Request]:
    prompts = held_out_code(len(CASES), 70)
    return [
        Request(ids, {"max_new_tokens": 32, "ignore_eos": True, **extra}, logprobs=3)
        for ids, extra in zip(prompts, CASES.values(), strict=True)
    ]


def test_penalties_grammar_and_logprobs_are_plain_decodes_under_changing_widths(engines, table):
    pair, grammar = pairs.demo(), {"grammar_backend": "xgrammar"}
    alone = pair.plain(engines, **grammar)
    plain = [alone.generate([request])[0] for request in adjusted()]
    engine = serve(pair, engines, table, **grammar)
    outputs = engine.generate(adjusted())  # as they finish, the batch shrinks through widths 4, 4, 1, 6, 8
    used = {WIDTHS[r.batch - 1] for out in outputs for r in out.rounds if r.mode == "decode"}
    assert len(used) >= 2
    for name, a, b in zip(CASES, plain, outputs, strict=True):
        at = next((i for i, (x, y) in enumerate(zip(a.output_ids, b.output_ids, strict=False)) if x != y), None)
        assert at is None, (name, at, a.top_logprobs[at], b.top_logprobs[at], a.rounds, b.rounds)
        count = len(a.output_ids)
        assert a.logprobs == pytest.approx(b.logprobs[:count], abs=1e-4), name
        for mine, theirs in zip(a.top_logprobs, b.top_logprobs[:count], strict=True):
            assert mine == pytest.approx(theirs, abs=1e-4), name


def test_sampled_requests_are_served_at_every_width(engines, table):
    pair = pairs.demo()
    engine = serve(pair, engines, table, grammar_backend="xgrammar")
    company = [{"temperature": 1.0}, {"temperature": 0.7, "top_p": 0.9, "top_k": 20}, {}]
    outputs = engine.generate([request(held_out_code(1, 70)[0], 24, **how) for how in company])  # batch 3: width 1
    assert all(len(out.output_ids) == 24 for out in outputs)
    assert {r.accepted for out in outputs for r in out.rounds if r.batch == 3 and r.mode == "decode"} == {1}


def test_accepted_length_is_reported_against_the_width_used(engines, table):
    pair = pairs.demo()
    engine = serve(pair, engines, table, grammar_backend="xgrammar")
    out = engine.generate([request(held_out_code(1, 70)[0], 40)])[0]
    histogram = out.req.spec_cap_lens_histogram
    assert histogram[8] == len(out.accept_lengths) and sum(histogram) == histogram[8]
    report = engine.draft_worker.widths.report()
    assert report["policy"] == "table" and report["widths"].keys() == {str(w) for w in sorted({*WIDTHS})}
    assert 0 < report["accept_rate_by_width"]["8"] <= 1


def test_a_forced_width_is_used_until_it_is_released(engines, table):
    pair = pairs.demo()
    engine = serve(pair, engines, table, grammar_backend="xgrammar")
    widths = engine.draft_worker.widths
    texts = []
    for width in (1, 3, 8, None):
        widths.force(width)
        widths.clock.reset()
        engine.flush()
        texts.append(engine.generate([request(held_out_code(1, 70)[0], 24)])[0].output_ids)
        seen = {(c["batch"], c["width"]) for c in widths.report()["rounds"]}
        assert seen == {(1, width or 8)}
    assert all(a == b for a, b in pairwise(texts))


def test_adaptive_leaves_drafting_that_does_not_pay_and_probes_it(engines, tmp_path, monkeypatch):
    """Random drafter, dear rounds: bursts of plain decode with probes between them, and plain decode's text."""
    path = tmp_path / "measured.json"
    cost = {"batches": [1], "widths": [1, 2, 8], "ms": [[1.0, 1.8, 3.0]]}
    raw = {"version": 1, "widths": [8], "provenance": {"gpu": "none", "source": "a test"}, "step_ms": cost}
    path.write_text(json.dumps(raw))
    monkeypatch.setenv("DSPINE_WIDTH_POLICY", "adaptive")
    pair, ids = pairs.dense(), random_prompts((20,))[0]
    engine = pair.served(engines, speculative_dspark_sps_table_path=str(path), **OVERLAP)
    out = engine.generate([request(ids, 200)])[0]
    assert_greedy(pair.target, ids, out.output_ids)
    report = engine.draft_worker.widths.report()
    assert report["policy"] == "adaptive" and report["decisions"]["probes"] >= 1
    assert int(report["rounds_by_width"]["1"]) > 80 and {"1", "8"} <= report["rounds_by_width"].keys()


def test_the_batch_sizes_to_capture_are_those_of_the_width_while_it_is_captured(engines, table):
    """There are no graphs on a CPU; what SGLang's runner reads is there."""
    from sglang.srt.model_executor.runner.base_cuda_graph_runner import get_batch_sizes_to_capture
    from sglang.srt.runtime_context import get_exec

    from sglang_dspine.worker.graphs import only_sizes

    runner = serve(pairs.demo(), engines, table, grammar_backend="xgrammar").model_runner
    before = get_exec().graph.cuda_graph_config.decode.bs
    with only_sizes((1, 3, 7)):
        assert get_batch_sizes_to_capture(runner, 8)[0] == [1, 3, 7]
    assert get_exec().graph.cuda_graph_config.decode.bs == before
