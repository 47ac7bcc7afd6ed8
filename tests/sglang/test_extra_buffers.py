"""The prefix cache of a hybrid target with SGLang's two extra-buffer strategies: cold and resumed text are equal.

A state is kept at every 64th position; a resumed prompt is cached up to the last one that its prefix reached.
"""

from __future__ import annotations

from statistics import mean

import pytest

from ..support import pairs
from ..support.engine import Request
from ..support.oracle import assert_greedy
from ..support.pairs import EXTRA_BUFFER, held_out_code
from ..support.replay import LAZY, SHORT
from ..support.round_log import logged_rounds

GRID, STEPS = 64, 48
SERVERS = {"extra_buffer": EXTRA_BUFFER, "extra_buffer_lazy": LAZY, "extra_buffer_lazy, ReplaySSM": SHORT}
EVERY = [list(SERVERS)[1], *(pytest.param(list(SERVERS)[i], marks=pytest.mark.full) for i in (0, 2))]


@pytest.fixture(scope="module", params=EVERY)
def running(request, engines):
    pair = pairs.demo()
    return pair, pair.served(engines, **SERVERS[request.param])


@pytest.fixture
def server(running):
    running[1].flush()
    return running


def send(engine, prompts, steps: int = STEPS):
    return engine.generate([Request(ids, {"max_new_tokens": steps, "ignore_eos": True}) for ids in prompts])


def accepted(outputs) -> float:
    return mean(length for out in outputs for length in out.accept_lengths)


@pytest.mark.report(15)
def test_a_prompt_sent_again_comes_from_the_cache_with_the_same_text_and_acceptance(server):
    pair, engine = server
    prompts = held_out_code(3, 150)
    cold, warm = send(engine, prompts), send(engine, prompts)
    for ids, first, second in zip(prompts, cold, warm, strict=True):
        assert_greedy(pair.target, ids, first.output_ids)
        assert first.cached_tokens == 0 and second.cached_tokens == 128
        assert second.output_ids == first.output_ids
    assert accepted(warm) >= accepted(cold)


def test_a_turn_appended_to_prompt_and_answer_goes_on_from_a_state_of_the_answer(server):
    """The answer ends at 210, beyond 192 and more than two blocks before 256: a lazy buffer gives up the state of an
    answer where a round in flight may still write it."""
    pair, engine = server
    for ids in held_out_code(3, 150):
        (first,) = send(engine, [ids], 60)
        turn = [*ids, *first.output_ids, *b"\n# next\n"]
        (second,) = send(engine, [turn], 16)
        assert second.cached_tokens == 192
        engine.flush()
        (cold,) = send(engine, [turn], 16)
        assert cold.cached_tokens == 0 and second.output_ids == cold.output_ids
        assert_greedy(pair.target, turn, second.output_ids)


def test_a_branch_from_the_middle_of_a_cached_run_starts_at_the_state_before_it(server):
    pair, engine = server
    (trunk,) = held_out_code(1, 330)
    send(engine, [trunk], 8)
    branches = [[*trunk[:at], *held_out_code(2, 60)[1]] for at in (140, 200, 270)]
    for at, ids in zip((140, 200, 270), branches, strict=True):
        (warm,) = send(engine, [ids], 16)
        engine.flush()
        (cold,) = send(engine, [ids], 16)
        assert warm.cached_tokens <= at // GRID * GRID and cold.cached_tokens == 0
        assert warm.output_ids == cold.output_ids
        assert_greedy(pair.target, ids, warm.output_ids)
        engine.flush()
        send(engine, [trunk], 8)


@pytest.mark.report(14)
def test_a_state_taken_inside_an_accepted_run_is_that_of_its_position(server):
    _, engine = server
    prompts, boundary, inside = held_out_code(4, 165), 192, 0
    with logged_rounds() as log:
        outputs = send(engine, prompts)
    for ids, out in zip(prompts, outputs, strict=True):
        inside += any(r.length < boundary < r.length + r.accepted for r in log.of(out.rid))
        count = boundary - len(ids) + 2
        (warm,) = send(engine, [[*ids, *out.output_ids[:count]]], 16)
        assert warm.cached_tokens == boundary
        assert warm.output_ids == out.output_ids[count : count + 16]
    assert inside, "no run crosses the snapshot's position: choose other prompts"


def test_states_thrown_out_under_pressure_cost_cached_tokens_and_no_text(server):
    """More prompts than the 32 slots of states: early ones lose theirs, and come back cold or from what is left."""
    pair, engine = server
    prompts = [[*ids[:70], i] for i, ids in enumerate(held_out_code(36, 130))]
    first = [out.output_ids for at in range(0, 36, 4) for out in send(engine, prompts[at : at + 4], 4)]
    cached = []
    for ids, text in zip(prompts[:8], first, strict=False):
        (out,) = send(engine, [ids], 4)
        assert out.output_ids == text
        cached.append(out.cached_tokens)
    for ids, text in zip(prompts[:4], first, strict=False):
        assert_greedy(pair.target, ids, text)
    assert 0 in cached, "nothing was thrown out"


@pytest.mark.full
@pytest.mark.parametrize("drafting", [True, False])
def test_a_prompt_that_ends_on_the_grid_has_no_state_to_resume_from_with_a_drafter_or_without(engines, drafting):
    """SGLang's own: of a chunk only the last state on the grid is kept, and a prompt's last token is never cached."""
    pair, prompts = pairs.demo(), held_out_code(2, 3 * GRID)
    engine = (pair.served if drafting else pair.plain)(engines, **EXTRA_BUFFER)
    send(engine, prompts)
    assert [out.cached_tokens for out in send(engine, prompts)] == [0, 0]
    assert [out.cached_tokens for out in send(engine, [[*ids, 10] for ids in prompts])] == [3 * GRID] * 2
