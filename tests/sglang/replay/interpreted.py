"""A hybrid target served with ReplaySSM by the Triton kernels that a GPU runs: SGLang's verify, our fold and SGLang's.

On the CPU under Triton's interpreter, float32 states and rings, a tiny random target; `test_interpreted.py` runs this.
"""

from __future__ import annotations

import importlib.util
from unittest import mock

import pytest
from sglang.kernels.ops.attention.linear import gdn_replayssm_spec_decode as rings

from sglang_dspine.kernels.ring_fold import commit_rings
from tests.support.engine import Request
from tests.support.models import dspine_drafter, hybrid_qwen35
from tests.support.oracle import assert_greedy, misses
from tests.support.pairs import Pair
from tests.support.prompts import random_prompts
from tests.support.replay import LONG, SHORT, rejected_rows

HEADS = {"linear_num_key_heads": 1, "linear_num_value_heads": 2, "linear_key_head_dim": 32, "linear_value_head_dim": 32}
PROMPTS = random_prompts((20, 5, 33))


def pair() -> Pair:
    """Keys and values of 32: the smallest that SGLang's verify kernel takes."""
    return Pair(hybrid_qwen35(**HEADS), dspine_drafter())


def send(engine):
    return engine.generate([Request(ids, {"max_new_tokens": 14, "ignore_eos": True}) for ids in PROMPTS])


def sglangs_fold():
    """The function whose place ours has taken."""
    spec = importlib.util.find_spec(rings.__name__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.commit_gdn_replayssm_circular


@pytest.mark.parametrize("server", [SHORT, LONG], ids=["ring of 16", "ring of 64"])
def test_cold_and_resumed_text_is_the_targets(engines, server):
    target, engine = pair().target, pair().served(engines, **server)
    assert rings.commit_gdn_replayssm_circular is commit_rings and rings.gdn_replayssm_spec_decode.__module__ == (
        rings.__name__
    )
    for _ in range(2):
        outputs = send(engine)
        for ids, out in zip(PROMPTS, outputs, strict=True):
            assert_greedy(target, ids, out.output_ids)
    assert max(length for out in outputs for length in out.accept_lengths) > 1


@pytest.mark.parametrize("whose", ["ours", "SGLang's"])
def test_nan_in_rejected_rows_reaches_states_and_text_by_sglangs_fold_alone(engines, whose):
    target, engine = pair().target, pair().served(engines, **SHORT)
    fold = commit_rings if whose == "ours" else sglangs_fold()
    repaired = engine.draft_worker.repairs.total
    with rejected_rows(engine, float("nan")), mock.patch.object(rings, "commit_gdn_replayssm_circular", fold):
        outputs = send(engine)
    wrong = any(misses(target, ids, out.output_ids) for ids, out in zip(PROMPTS, outputs, strict=True))
    felt = engine.draft_worker.repairs.total > repaired
    assert wrong == felt == (whose != "ours")
