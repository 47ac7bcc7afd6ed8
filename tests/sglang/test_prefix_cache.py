"""Text resumed from the prefix cache is the text of a cold run, wherever in an accepted run the cached part ends."""

from __future__ import annotations

from statistics import mean

import pytest

from ..support import pairs
from ..support.engine import Request
from ..support.oracle import assert_greedy, assert_same
from ..support.pairs import EXTRA_BUFFER, held_out_code
from ..support.prompts import random_prompts
from ..support.reference_rounds import Comparison, compare
from ..support.round_log import logged_rounds

MORE = 12
SERVERS = {
    "page size 1": {},
    "pages and chunks of 16, overlapped": {
        "disable_overlap_schedule": False,
        "page_size": 16,
        "chunked_prefill_size": 16,
    },
    "chunks of 5": {"chunked_prefill_size": 5},
}


def send(engine, prompts, steps: int):
    return engine.generate([Request(ids, {"max_new_tokens": steps, "ignore_eos": True}) for ids in prompts])


def cuts(out, longest: int) -> range:
    """How many output tokens a resumed prompt repeats: every count that ends inside the longest accepted run."""
    at, runs = 1, []
    for length in out.accept_lengths:
        runs.append(range(at, min(at + length, len(out.output_ids) - MORE) + 1))
        at += length
    best = max(runs, key=len)
    assert len(best) > 2, "no run worth cutting"
    return best[-longest:]


def resume(engine, target: str, prompts, steps: int, longest: int = 8):
    """Emit a text for each prompt, then resume the one with the longest run at every cut of that run, all at once.

    Returns what resuming gave, with the resumed prompts, after holding it to the cold text.
    """
    outputs = send(engine, prompts, steps)
    best = max(range(len(prompts)), key=lambda i: max(outputs[i].accept_lengths[:-MORE] or [0]))
    ids, cold = prompts[best], outputs[best]
    counts = cuts(cold, longest)
    resumed = [[*ids, *cold.output_ids[:count]] for count in counts]
    again = send(engine, resumed, MORE)
    for count, out in zip(counts, again, strict=True):
        text = [*cold.output_ids[:count], *out.output_ids]
        assert_same(target, ids, cold.output_ids[: count + MORE], text, f"cut {count}")
    return resumed, again


@pytest.mark.parametrize("name", list(SERVERS)[:2])
def test_a_dense_text_resumes_at_every_token_of_an_accepted_run(engines, name):
    pair, server = pairs.dense(), SERVERS[name]
    engine = pair.served(engines, **server)
    resumed, again = resume(engine, pair.target, random_prompts((17, 20, 33, 40, 41, 64)), 60)
    page = server.get("page_size", 1)
    for ids, out in zip(resumed, again, strict=True):
        assert out.cached_tokens >= max((len(ids) - 1) // page * page - page, 1)


@pytest.mark.parametrize("name", [list(SERVERS)[1], pytest.param("chunks of 5", marks=pytest.mark.full)])
def test_chunks_may_end_anywhere_in_an_accepted_run(engines, name):
    """Cold this time: nothing is cached, and the prompt is computed in chunks that cut the run at every place."""
    pair = pairs.dense()
    engine = pair.served(engines, **SERVERS[name])
    prompt = random_prompts((33,))[0]
    (cold,) = send(engine, [prompt], 60)
    starts = cuts(cold, 8)
    for count in starts:
        engine.flush()
        shifted = [*prompt[count - starts[0] :], *cold.output_ids[:count]]
        (out,) = send(engine, [shifted], MORE)
        assert out.cached_tokens == 0
        assert_greedy(pair.target, shifted, out.output_ids, f"cut {count}")


@pytest.mark.report(14)
def test_a_snapshot_taken_inside_an_accepted_run_holds_the_state_of_its_position(engines):
    """The recurrent state that a cached prefix brings must be that of the prefix's end."""
    pair, prompts, interval = pairs.demo(), held_out_code(4, 165), 64
    engine = pair.served(engines, **EXTRA_BUFFER)
    with logged_rounds() as log:
        outputs = send(engine, prompts, 48)
    boundary, inside = 3 * interval, []
    for ids, out in zip(prompts, outputs, strict=True):
        assert_greedy(pair.target, ids, out.output_ids)
        crossing = [r for r in log.of(out.rid) if r.length < boundary < r.length + r.accepted]
        inside += [(ids, out)] if crossing else []
    assert inside, "no run crosses the snapshot's position: choose other prompts"
    count = boundary - 165 + 2
    resumed = [[*ids, *out.output_ids[:count]] for ids, out in inside]
    again = send(engine, resumed, MORE)
    for (ids, cold), prompt, out in zip(inside, resumed, again, strict=True):
        assert out.cached_tokens == boundary
        assert_same(pair.target, ids, cold.output_ids[: count + MORE], [*cold.output_ids[:count], *out.output_ids])
        assert_greedy(pair.target, prompt, out.output_ids)


@pytest.mark.report(15)
def test_a_cached_prompt_is_drafted_as_well_as_a_cold_one(engines):
    """The second time prompts come from the cache, and as much is accepted."""
    pair, prompts = pairs.demo(), held_out_code(2, 150)
    engine = pair.served(engines, **EXTRA_BUFFER)
    result, accepted = Comparison(), []
    for cached in (False, True):
        with logged_rounds() as log:
            outputs = send(engine, prompts, 24)
        assert all((out.cached_tokens > 0) == cached for out in outputs)
        for out in outputs:
            text = [*out.req.origin_input_ids, *out.req.output_ids]
            compare(pair, text, [r for r in log.of(out.rid) if r.length + 1 < len(text)], result)
        accepted.append(mean(length for out in outputs for length in out.accept_lengths))
    result.holds()
    assert accepted[1] >= accepted[0]


def test_prompts_that_share_a_prefix_share_its_draft_keys(engines):
    """A prefix written for one request serves another whose text goes on differently."""
    pair = pairs.full_rank()
    engine = pair.served(engines)
    common, *tails = random_prompts((60, 5, 9, 14))
    send(engine, [common], 8)
    result = Comparison()
    with logged_rounds() as log:
        outputs = send(engine, [common + tail for tail in tails], 8)
    for out, tail in zip(outputs, tails, strict=True):
        assert out.cached_tokens >= len(common)
        assert_greedy(pair.target, common + tail, out.output_ids)
        compare(pair, [*common, *tail, *out.req.output_ids], log.of(out.rid), result)
    result.holds()
