"""ReplaySSM where something besides a verify step takes a recurrent state up: no row may be missing from it then.

A prefix cache without extra buffers keeps the state of a finished request as it lies in the pool; a mixed step extends
a decoding request by it. Rings long enough to hold rows between rounds, by a long ring or a narrow width.
"""

from __future__ import annotations

import pytest

from ..support import pairs
from ..support.engine import Request
from ..support.oracle import assert_greedy
from ..support.pairs import EXTRA_BUFFER
from ..support.prompts import random_prompts
from ..support.replay import REPLAY

PROMPTS = random_prompts((30, 41, 52), seed=3)
RINGS = {
    "ring of 64": {"linear_replayssm_cache_len": 64, "speculative_num_draft_tokens": 8},
    "width 4": {"speculative_num_draft_tokens": 4},
}
EVERY = pytest.mark.parametrize("ring", [pytest.param("ring of 64"), pytest.param("width 4", marks=pytest.mark.full)])


def request(ids, steps: int) -> Request:
    return Request(list(ids), {"max_new_tokens": steps, "ignore_eos": True})


@EVERY
def test_a_finished_request_resumes_from_the_prefix_cache_without_extra_buffers(engines, ring):
    pair = pairs.hybrid()
    engine = pair.served(engines, **REPLAY, **RINGS[ring])
    for ids in PROMPTS:
        for steps in (9, 14, 23):
            engine.flush()
            (cold,) = engine.generate([request(ids, steps)])
            assert_greedy(pair.target, ids, cold.output_ids)
            more = [*ids, *cold.output_ids, 5, 6, 7]
            (resumed,) = engine.generate([request(more, 16)])
            assert resumed.cached_tokens > 0
            assert_greedy(pair.target, more, resumed.output_ids)


@EVERY
def test_a_request_that_decodes_beside_prefill_chunks_keeps_its_text(engines, ring):
    pair = pairs.hybrid()
    mixed = {"enable_mixed_chunk": True, "chunked_prefill_size": 64}
    engine = pair.served(engines, **REPLAY, **EXTRA_BUFFER, **mixed, **RINGS[ring])
    running, joined = engine.add_request(request(PROMPTS[0], 60)), []
    for count, ids in zip((5, 12), random_prompts((75, 82), seed=5), strict=True):
        engine.run_until(lambda count=count: running.req is not None and len(running.output_ids) > count)
        joined.append((ids, engine.add_request(request(ids, 20))))
    engine.run_until(lambda: running.finished and all(out.finished for _, out in joined))
    engine.settle()
    extends = [r for r in running.rounds if r.mode == "extend"]
    assert len(extends) > 2, "no step was mixed: choose other prompts"
    for ids, out in [(PROMPTS[0], running), *joined]:
        assert_greedy(pair.target, ids, out.output_ids)
