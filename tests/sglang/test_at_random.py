"""Requests that join, widths that are forced, generation that is paused and retracted, caches that are flushed, all at
random (seeded): every text stays plain decode's (E1)."""

from __future__ import annotations

import json
import random

import pytest

from ..support import pairs
from ..support.engine import Request
from ..support.pairs import EXTRA_BUFFER
from ..support.prompts import random_prompts
from ..support.replay import LAZY, REPLAY

WIDTHS = (1, 2, 3, 5, 8)
OVERLAP = {"disable_overlap_schedule": False}
LONG_RING = {**REPLAY, "linear_replayssm_cache_len": 64}
MIXED = {"enable_mixed_chunk": True, "chunked_prefill_size": 64}
PENALISED = {
    "repetition_penalty": 1.3, "frequency_penalty": 0.4, "presence_penalty": 0.3, "min_new_tokens": 10,
    "ignore_eos": False,
}  # fmt: skip
HYBRID = {
    "no replay, pages of 16": {**EXTRA_BUFFER, "page_size": 16},
    "ring of 16, lazy buffer": {**REPLAY, **LAZY},
    "ring of 64, extra buffer": {**LONG_RING, **EXTRA_BUFFER},
    "ring of 64, no buffer": LONG_RING,
    "ring of 64, no prefix cache": {**LONG_RING, "disable_radix_cache": True},
    "ring of 64, mixed steps": {**LONG_RING, **EXTRA_BUFFER, **MIXED},
    "ring of 64, paused in place": {**LONG_RING, **EXTRA_BUFFER, "pause": "in_place"},
}
DENSE = {
    "overlap": OVERLAP,
    "window of 16, pages of 16": {**OVERLAP, "speculative_draft_window_size": 16, "page_size": 16},
    "no prefix cache": {"disable_radix_cache": True},
    "mixed steps, paused in place": {**OVERLAP, **MIXED, "pause": "in_place"},
    "memory for 300 tokens": {**OVERLAP, "max_total_tokens": 300, "pause": None},
    "longest output first": {**OVERLAP, "schedule_policy": "lof"},
}
FAST = {"ring of 64, mixed steps", "overlap"}


def requests() -> list[Request]:
    prompts = random_prompts((20, 65, 33, 128, 1, 64), seed=9)  # at, below and above chunks and snapshots
    usual = {"max_new_tokens": 70, "ignore_eos": True}
    return [Request(ids, {**usual, **(PENALISED if i % 3 == 2 else {})}) for i, ids in enumerate(prompts)]


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("sps") / "sps.json"
    provenance = {"gpu": "none", "source": "a test"}
    path.write_text(json.dumps({"version": 1, "widths": list(WIDTHS), "provenance": provenance}))
    return str(path)


@pytest.fixture(scope="module")
def expected(engines):
    """Plain decode's texts, each request alone."""
    kept: dict = {}

    def of(pair) -> list[list[int]]:
        if pair not in kept:
            engine = pair.plain(engines)
            kept[pair] = [engine.generate([request])[0].output_ids for request in requests()]
        return kept[pair]

    return of


def play(engine, draw: random.Random, pause: str | None) -> list:
    """The outputs, in the order of the requests."""
    from sglang.srt.managers.io_struct import ContinueGenerationReqInput, PauseGenerationReqInput

    waiting, outputs = requests(), []
    for _ in range(3000):
        if not waiting and all(out.finished for out in outputs):
            engine.draft_worker.widths.force(None)
            engine.settle()
            return outputs
        if waiting and draw.random() < 0.4:
            outputs.append(engine.add_request(waiting.pop(0)))
        if draw.random() < 0.5:
            engine.draft_worker.widths.force(draw.choice(WIDTHS))
        engine.step()
        if pause and outputs and draw.random() < 0.08:
            engine.scheduler.pause_generation(PauseGenerationReqInput(mode=pause))
            if pause == "retract" and draw.random() < 0.5:
                engine.scheduler.flush_cache()
            engine.scheduler.continue_generation(ContinueGenerationReqInput(torch_empty_cache=False))
    raise AssertionError("not finished within 3,000 steps")


def cases():
    for kind, table in (("hybrid", HYBRID), ("dense", DENSE)):
        for name in table:
            yield pytest.param(kind, name, id=f"{kind}, {name}", marks=[] if name in FAST else pytest.mark.full)


@pytest.mark.parametrize(("kind", "name"), cases())
def test_whatever_happens_meanwhile_a_text_is_plain_decodes(engines, expected, table, kind, name):
    pair, server = (pairs.hybrid(), HYBRID[name]) if kind == "hybrid" else (pairs.dense(), DENSE[name])
    texts = expected(pair)
    server = {"pause": "retract", **server}
    pause = server.pop("pause")
    engine = pair.served(engines, speculative_dspark_sps_table_path=table, **server)
    for seed in range(1 if name in FAST else 2):
        outputs = play(engine, random.Random(seed), pause)
        assert [out.output_ids for out in outputs] == texts
        assert pause != "retract" or sum(out.req.retraction_count for out in outputs) > 0
        engine.flush()
