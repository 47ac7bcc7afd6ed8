"""The stand-in's speculative path: SGLang's own DFLASH leaves the text unchanged, and a wrong commit would not."""

from __future__ import annotations

import pytest

from ..support.engine import Request
from ..support.models import dense_qwen3, dflash_drafter, hf_greedy, hybrid_qwen35
from ..support.prompts import random_prompts

STEPS = 24
PROMPTS = random_prompts((3, 11, 20, 33, 64, 7))
EXTRA_BUFFER = {"mamba_radix_cache_strategy": "extra_buffer", "disable_overlap_schedule": False}
SERVERS = {
    "dense": (dense_qwen3, {}),
    "dense overlapped in pages": (dense_qwen3, {"disable_overlap_schedule": False, "page_size": 16}),
    "hybrid": (hybrid_qwen35, {}),
    "hybrid overlapped": (hybrid_qwen35, EXTRA_BUFFER),
}


def drafting(engines, server):
    target, server_args = SERVERS[server]
    path = target()
    draft = {"speculative_algorithm": "DFLASH", "speculative_draft_model_path": dflash_drafter()}
    return path, engines(path, **draft, **server_args)


def generate(engine):
    return engine.generate([Request(ids, {"max_new_tokens": STEPS, "ignore_eos": True}) for ids in PROMPTS])


@pytest.mark.parametrize(
    "server", ["hybrid", *(pytest.param(n, marks=pytest.mark.full) for n in SERVERS if n != "hybrid")]
)
def test_drafting_leaves_the_text_unchanged(engines, server):
    path, engine = drafting(engines, server)
    expected = [hf_greedy(path, ids, STEPS) for ids in PROMPTS]
    for _ in range(2):  # the second time from the prefix cache
        outputs = generate(engine)
        assert [out.output_ids for out in outputs] == expected
    assert max(length for out in outputs for length in out.accept_lengths) > 1
    for out in outputs:
        emitted = [len(r.tokens) for r in out.rounds if r.mode == "decode"]
        assert emitted == out.accept_lengths


@pytest.mark.parametrize("late", [-1, 1])
def test_a_state_committed_one_row_off_changes_the_text(engines, monkeypatch, late):
    from sglang.kernels.ops.mamba import mamba_state_scatter_triton as triton_side

    path, engine = drafting(engines, "hybrid")
    commit = triton_side.fused_mamba_state_scatter_with_mask

    def off_by_one(pool, rows, slots, steps, requests=None):
        commit(pool, rows, slots, (steps + late).clamp(0, rows.shape[2] - 1), requests)

    monkeypatch.setattr(triton_side, "fused_mamba_state_scatter_with_mask", off_by_one)
    expected = [hf_greedy(path, ids, STEPS) for ids in PROMPTS]
    assert [out.output_ids for out in generate(engine)] != expected
