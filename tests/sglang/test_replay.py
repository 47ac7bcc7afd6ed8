"""Hybrid targets served with ReplaySSM emit the target's text (E1), cold and resumed.

SGLang's pools, cursors, schedules and prefix cache; its verify kernel in plain PyTorch (`cpu/`), our fold in its plain
form. The kernels themselves run under Triton's interpreter in `replay/interpreted.py`.
"""

from __future__ import annotations

import json

import pytest

from ..support import pairs
from ..support.engine import Request
from ..support.oracle import assert_greedy, misses
from ..support.prompts import random_prompts
from ..support.replay import LONG, SERVERS, SHORT, commits_shifted, mamba_pool, rejected_rows
from ..support.round_log import logged_rounds

PROMPTS, MORE = random_prompts((20, 5, 33, 11)), random_prompts((9, 14, 6, 21), seed=4)
NAMES = list(SERVERS)
EVERY = [NAMES[0], pytest.param(NAMES[1], marks=pytest.mark.full)]


def request(ids, steps: int = 20, **sampling) -> Request:
    return Request(ids, {"max_new_tokens": steps, "ignore_eos": True, **sampling})


@pytest.fixture(scope="module", params=EVERY)
def running(request, engines):
    pair = pairs.hybrid()
    return request.param, pair, pair.served(engines, **SERVERS[request.param])


@pytest.fixture
def server(running):
    running[2].flush()
    return running


@pytest.mark.report(2)
def test_requests_that_join_leave_and_are_aborted_keep_the_targets_text(server):
    name, pair, engine = server
    before, histories = engine.pools, set()
    lasting = engine.add_request(request(PROMPTS[0], 60))
    others = []
    for ids, steps in zip(PROMPTS[1:], (6, 60, 12), strict=True):
        seen = len(others)
        engine.run_until(lambda seen=seen: lasting.req is not None and len(lasting.rounds) > 2 * (seen + 1))
        others.append(engine.add_request(request(ids, steps)))
    engine.run_until(lambda: others[1].req is not None and len(others[1].output_ids) > 4)
    engine.abort(others[1].rid)
    while not (lasting.finished and all(out.finished for out in others)):
        engine.step()
        histories.update(mamba_pool(engine).replayssm_spec_write_pos.tolist())
    engine.settle()
    assert others[1].finish_reason["type"] == "abort"
    again = engine.generate([request(ids) for ids in MORE])  # the slots once more
    for ids, out in zip([*PROMPTS, *MORE], [lasting, *others, *again], strict=True):
        assert_greedy(pair.target, ids, out.output_ids)
    assert mamba_pool(engine).mamba_cache.intermediate_ssm is None
    scratch = engine.draft_worker.scratch
    assert scratch.replay and "with ReplaySSM, without it" in str(scratch) and scratch.held < scratch.other
    assert (max(histories) > 16) == (SERVERS[name] is LONG), "a long ring holds several rounds, a short one none"
    engine.flush()
    assert engine.pools == before


@pytest.mark.report(14)
@pytest.mark.report(15)
def test_text_resumed_from_a_boundary_inside_an_accepted_run_is_the_cold_text(server):
    _, pair, engine = server
    prompts, boundary = random_prompts((52, 55, 57, 59, 60, 61), seed=3), 64
    with logged_rounds() as log:
        cold = [engine.generate([request(ids, 40)])[0] for ids in prompts]
    crossing = [r for out in cold for r in log.of(out.rid) if r.length < boundary < r.length + r.accepted]
    assert crossing, "no run crosses the snapshot's position: choose other prompts"
    for ids, out in zip(prompts, cold, strict=True):
        assert_greedy(pair.target, ids, out.output_ids)
        count = boundary - len(ids) + 3
        (warm,) = engine.generate([request([*ids, *out.output_ids[:count]], 12)])
        assert warm.cached_tokens == boundary
        assert warm.output_ids == out.output_ids[count : count + 12]


@pytest.mark.parametrize("by", [-1, 1], ids=["one early", "one late"])
def test_a_commit_one_row_off_is_caught(server, by):
    _, pair, engine = server
    with commits_shifted(by):
        outputs = engine.generate([request(ids) for ids in PROMPTS])
    assert any(misses(pair.target, ids, out.output_ids) for ids, out in zip(PROMPTS, outputs, strict=True))
    engine.flush()
    for ids, out in zip(PROMPTS, engine.generate([request(ids) for ids in PROMPTS]), strict=True):
        assert_greedy(pair.target, ids, out.output_ids)


@pytest.mark.report(1)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_bad_numbers_in_rejected_ring_rows_change_no_token_and_need_no_repair(server, value):
    _, pair, engine = server
    repaired = engine.draft_worker.repairs.total
    with rejected_rows(engine, value):
        outputs = engine.generate([request(ids) for ids in PROMPTS])
    for ids, out in zip(PROMPTS, outputs, strict=True):
        assert_greedy(pair.target, ids, out.output_ids)
    assert engine.draft_worker.repairs.total == repaired
    assert mamba_pool(engine).mamba_cache.temporal.isfinite().all()
    for ids, out in zip(MORE, engine.generate([request(ids) for ids in MORE]), strict=True):  # slots with bad rows
        assert_greedy(pair.target, ids, out.output_ids)


@pytest.mark.full
def test_a_request_thrown_out_for_want_of_memory_resumes_its_text(engines):
    pair = pairs.hybrid()
    engine = pair.served(engines, **SHORT, max_total_tokens=288, schedule_conservativeness=0.05)
    outputs = engine.generate([request(ids, 80, ignore_eos=False) for ids in PROMPTS])
    assert sum(out.req.retraction_count for out in outputs) > 0, "memory was never short"
    for ids, out in zip(PROMPTS, outputs, strict=True):
        assert_greedy(pair.target, ids, out.output_ids)


@pytest.mark.full
def test_widths_may_change_while_a_ring_holds_rows_of_other_widths(engines, tmp_path):
    table = tmp_path / "sps.json"
    table.write_text(
        json.dumps({"version": 1, "widths": [8, 3, 5, 2, 1], "provenance": {"gpu": "none", "source": "x"}})
    )
    pair = pairs.hybrid()
    engine = pair.served(engines, **LONG, speculative_dspark_sps_table_path=str(table))
    out, widths, histories = engine.add_request(request(PROMPTS[0], 90)), engine.draft_worker.widths, set()
    for tokens, width in ((8, 8), (14, 2), (30, 8), (34, 1), (70, 5), (90, 8)):
        widths.force(width)
        while out.req is None or len(out.output_ids) < tokens:
            engine.step()
            histories.update(mamba_pool(engine).replayssm_spec_write_pos.tolist())
    widths.force(None)
    engine.settle()
    assert max(histories) > 40
    assert_greedy(pair.target, PROMPTS[0], out.output_ids)


@pytest.mark.full
def test_a_trained_pair_with_block_16_fills_a_ring_of_16(engines):
    pair, prompts = pairs.demo(), pairs.held_out_code(3, 150)
    engine = pair.served(engines, **SHORT)
    outputs = engine.generate([request(ids, 40) for ids in prompts])
    for ids, out in zip(prompts, outputs, strict=True):
        assert_greedy(pair.target, ids, out.output_ids)
    assert max(length for out in outputs for length in out.accept_lengths) > 8
