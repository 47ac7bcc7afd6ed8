"""Tensor parallelism over two processes and gloo, in real SGLang: one rank's text, sampled requests, collectives."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest

from sglang_dspine.bench.collectives import Collective, counts, round_collectives
from sglang_dspine.kernels.shape import Shape

from ..support import pairs
from ..support.engine import Request
from ..support.http_server import HttpServer
from ..support.oracle import assert_greedy, assert_same
from ..support.pairs import EXTRA_BUFFER, held_out_code
from ..support.process import GPU

pytestmark = [
    pytest.mark.full,
    pytest.mark.xdist_group("http"),
    pytest.mark.skipif(GPU, reason="serves on the CPU"),
]
PLUGIN = Path(__file__).resolve().parents[1] / "support" / "collective_log"
STEPS, PROMPTS = 48, held_out_code(3, 150)
DRAFT = {"speculative_algorithm": "DSPINE", "speculative_draft_model_path": pairs.demo().draft}


@pytest.fixture(scope="module")
def alone(engines):
    """Texts and mean accepted length of one rank."""
    engine = pairs.demo().served(engines, **EXTRA_BUFFER)
    requests = [Request(ids, {"max_new_tokens": STEPS, "ignore_eos": True}) for ids in PROMPTS]
    outputs = [engine.generate([request])[0] for request in requests]
    lengths = [length for out in outputs for length in out.accept_lengths]
    return [out.output_ids for out in outputs], sum(lengths) / len(lengths)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """The folder of the plugin in tests/support/collective_log."""
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def server(alone, log):
    """Two ranks, the overlap schedule on. SGLang wants to be told a core for each rank."""
    cores = sorted(os.sched_getaffinity(0))
    env = {
        "SGLANG_CPU_OMP_THREADS_BIND": f"{cores[0]}|{cores[-1]}", "DSPINE_SELF_CHECK": "1",
        "COLLECTIVE_LOG": str(log), "PYTHONPATH": str(PLUGIN),
    }  # fmt: skip
    settings = {**EXTRA_BUFFER, **DRAFT, "disable_overlap_schedule": None, "log_level": "info"}
    with HttpServer(pairs.demo().target, timeout_s=590, env=env, tp_size=2, **settings) as running:
        yield running


def test_two_ranks_emit_what_one_emits(server, alone):
    texts, mean = alone
    answers = [server.generate(ids, max_new_tokens=STEPS, ignore_eos=True) for ids in PROMPTS]
    for ids, text, answer in zip(PROMPTS, texts, answers, strict=True):
        assert_greedy(pairs.demo().target, ids, answer["output_ids"], "two ranks")
        assert_same(pairs.demo().target, ids, text, answer["output_ids"], "two ranks")
    told = [answer["meta_info"] for answer in answers]
    lengths = sum(m["completion_tokens"] for m in told) / sum(m["spec_verify_ct"] for m in told)
    assert mean > 1.5 and abs(lengths - mean) < 0.25 * mean, f"accepted {lengths:.2f}, by one rank {mean:.2f}"


def test_a_batch_from_the_cache_is_the_same_text(server, alone):
    again = server.generate_together(PROMPTS, max_new_tokens=STEPS, ignore_eos=True)
    for ids, text, answer in zip(PROMPTS, alone[0], again, strict=True):
        assert_same(pairs.demo().target, ids, text, answer["output_ids"], "two ranks, together")


def test_the_draft_passes_its_self_check_on_every_rank(server):
    found = [
        line for line in server.log.read_text(errors="replace").splitlines() if "self-check of the draft: " in line
    ]
    assert len(found) == 2 and all(f"TP{rank}]" in line for rank, line in enumerate(sorted(found)))


def test_sampled_seeded_penalised_and_constrained_requests_are_served(server):
    settings = [
        {"temperature": 1.0, "top_p": 0.95},
        {"temperature": 0.8, "top_k": 20, "min_p": 0.02},
        {"temperature": 1.0, "presence_penalty": 0.6, "frequency_penalty": 0.4},
        {"temperature": 0, "regex": "[ab]{40}"},
        {"temperature": 1.0, "regex": "[ab]{40}"},
    ]
    for sampling in settings:
        answers = [server.generate(ids, max_new_tokens=40, ignore_eos=True, **sampling) for ids in PROMPTS]
        assert all(len(answer["output_ids"]) >= 40 for answer in answers)
        if "regex" in sampling:
            assert all(set(answer["output_ids"][:40]) <= set(b"ab") for answer in answers)
    texts = {tuple(server.generate(PROMPTS[0], max_new_tokens=40, temperature=1.0)["output_ids"]) for _ in range(4)}
    assert len(texts) > 1, "draws repeat"


def test_a_round_has_the_collectives_that_are_reckoned(server, log):
    """In number and in bytes, SGLang's own layers' and ours: what a longer answer takes beyond a shorter one."""

    def sent(steps: int) -> tuple[Counter[str], Counter[str], int]:
        before = len((log / "collectives").read_text().splitlines())
        answer = server.generate(PROMPTS[1], max_new_tokens=steps, ignore_eos=True)
        time.sleep(2)  # under overlap a round more is on its way
        lines = [line.split() for line in (log / "collectives").read_text().splitlines()[before:]]
        count, size = Counter(kind for kind, _ in lines), Counter[str]()
        for kind, nbytes in lines:
            size[kind] += int(nbytes)
        return count, size, answer["meta_info"]["spec_verify_ct"]

    sent(8)  # the prompt is in the cache from now on
    (short, little, few), (long, much, many) = sent(8), sent(STEPS)
    rounds, reckoned = many - few, reckon()
    assert rounds > 4
    assert {kind: (long[kind] - short[kind]) / rounds for kind in counts(reckoned)} == counts(reckoned)
    for kind in counts(reckoned):
        expected = sum(c.count * c.bytes for c in reckoned if c.kind == kind)
        assert (much[kind] - little[kind]) / rounds == expected, kind


def reckon() -> list[Collective]:
    """A round of one request of the demo pair at its full width, in float32."""
    target, draft = (json.loads((pairs.DEMO / part / "config.json").read_text()) for part in ("target", "draft"))
    dspine = draft["dspine_config"]
    shape = Shape(
        hidden=target["hidden_size"], layers=draft["num_hidden_layers"], vocab=target["vocab_size"],
        rank=dspine["transfer_rank"], message=dspine["message_size"], top_k=dspine["top_k"],
    )  # fmt: skip
    padded = -(-target["vocab_size"] // 64) * 64
    return round_collectives(1, draft["block_size"], 2, target["num_hidden_layers"], shape, 4, padded)


def test_ranks_whose_floats_differ_commit_the_same(server, log):
    """Rank 1 is a percent off after every sum and every gather: its own logits would take other tokens."""
    (log / "noise").touch()
    try:
        for sampling in ({}, {"temperature": 1.0, "top_p": 0.95}):
            for ids in PROMPTS:
                answer = server.generate(ids, max_new_tokens=STEPS, ignore_eos=True, **sampling)
                assert len(answer["output_ids"]) == STEPS
        server.generate_together(PROMPTS, max_new_tokens=STEPS, ignore_eos=True, temperature=0.8)
    finally:
        (log / "noise").unlink()
    time.sleep(2)
    first, second = (rounds_of(log / f"rounds.{rank}") for rank in (0, 1))
    assert len(first) > 60 and first == second


def rounds_of(path: Path) -> list[str]:
    return path.read_text().splitlines()
