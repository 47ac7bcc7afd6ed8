"""Bad numbers in a running server are repaired or outvoted where they stand; other requests do not notice (report 1).

| where | what must happen |
|---|---|
| target logits | the row is repaired, counted by its cause, its request named once; the request goes on |
| target probabilities | the row becomes certain of the best token, counted |
| draft weights, draft KV | nothing to repair: real tokens are proposed, fewer accepted, the text stays the target's |
| rejected ring rows (ReplaySSM) | nothing at all: tests/sglang/test_replay.py |

In every case the other requests of the batch get bit for bit the logits they get without the fault, and the last
vocabulary id does not come out.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from unittest import mock

import pytest
import torch

from sglang_dspine.verify import decide as decide_module
from sglang_dspine.verify import repair_log
from sglang_dspine.worker import round as rounds

from ..support import pairs
from ..support.engine import Request
from ..support.oracle import assert_greedy
from ..support.pairs import EXTRA_BUFFER, held_out_code
from ..support.round_log import logged_rounds

pytestmark = pytest.mark.report(1)
STEPS = 24
NAN, INF = float("nan"), float("inf")


@pytest.fixture
def engine(engines):
    engine = pairs.demo().served(engines, **EXTRA_BUFFER)
    engine.draft_worker.repairs = repair_log.RepairLog()
    return engine


@contextmanager
def spoilt(value: float, first: int = 2):
    """A target that forgets itself: rows `first` and up of the request "ailing" are `value` in its third round."""
    right, seen, rows = rounds.verify_forward, [], []

    def verify_forward(worker, batch, draft_input, block, tokens):
        result = right(worker, batch, draft_input, block, tokens)
        logits = result.logits_output.next_token_logits.view(*tokens.shape, -1)
        for i, req in enumerate(batch.reqs):
            if req.rid == "ailing":
                seen.append(req)
                if len(seen) == 3:
                    logits[i, first:] = value
            else:
                rows.append((req.rid, int(batch.seq_lens[i]), logits[i].clone()))
        return result

    with mock.patch.object(rounds, "verify_forward", verify_forward):
        yield rows


def three(temperature: float = 0.0):
    prompts, sampling = held_out_code(3, 150), {"max_new_tokens": STEPS, "ignore_eos": True}
    sent = [Request(ids, dict(sampling), rid=f"well-{i}") for i, ids in enumerate(prompts)]
    sent[1] = Request(prompts[1], {**sampling, "temperature": temperature}, rid="ailing")
    return prompts, sent


def assert_well(engine, prompts, outputs) -> None:
    for i in (0, 2):
        assert_greedy(engine.model_runner.server_args.model_path, prompts[i], outputs[i].output_ids)
    vocab = engine.scheduler.model_config.vocab_size
    assert len(outputs[1].output_ids) == STEPS and outputs[1].finish_reason["type"] == "length"
    assert all(token < vocab - 1 for token in outputs[1].output_ids), "the last vocabulary id came out"


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize(("value", "cause"), [(NAN, "nan_logits"), (INF, "infinite_logits"), (-INF, "no_finite_logit")])
def test_bad_target_logits_are_counted_by_cause_and_cost_nobody_else_a_token(engine, value, cause, temperature, caplog):
    prompts, sent = three(temperature)
    with caplog.at_level(logging.WARNING, logger=repair_log.__name__), spoilt(value):
        outputs = engine.generate(sent)
    bad = engine.draft_worker.block_size - 2
    assert engine.draft_worker.repairs.by_cause == {cause: bad}
    named = [r.getMessage() for r in caplog.records if r.name == repair_log.__name__]
    assert len(named) == 1 and "request ailing " in named[0] and f"{bad} x {cause}" in named[0]
    assert_well(engine, prompts, outputs)


def test_the_other_requests_get_the_same_bits(engine):
    """The rounds of the company, with and without the fault beside them."""
    seen = []
    for value in (NAN, None):
        engine.flush()
        with spoilt(value if value is not None else 0.0, first=2 if value is not None else 99) as rows:
            engine.generate(three()[1])
        seen.append({(rid, length): logits for rid, length, logits in rows})
    common = seen[0].keys() & seen[1].keys()
    assert len(common) > 6
    for key in common:
        assert torch.equal(seen[0][key].view(torch.uint8), seen[1][key].view(torch.uint8)), key


def test_bad_target_probabilities_are_counted_and_become_the_best_token(engine):
    prompts, sent = three(0.9)
    right, calls = decide_module.target_distribution, []

    def target_distribution(logits, info, width, max_top_k):
        probs = right(logits, info, width, max_top_k)
        calls.append(probs)
        if len(calls) == 3:
            probs[1] = NAN
        return probs

    with mock.patch.object(decide_module, "target_distribution", target_distribution):
        outputs = engine.generate(sent)
    assert engine.draft_worker.repairs.by_cause == {"probabilities": engine.draft_worker.block_size}
    assert_well(engine, prompts, outputs)


@contextmanager
def draft_weights(engine):
    weight = engine.draft_worker.draft_model.layers[-1].mlp.down_proj.weight
    kept = weight.data.clone()
    weight.data[0] = NAN
    yield
    weight.data.copy_(kept)


@contextmanager
def draft_kv(engine):
    """Every context row that is committed."""
    worker = engine.draft_worker
    right = worker._append_target_hidden_to_draft_kv_by_loc

    def append(target_hidden, **rest):
        right(target_hidden=torch.full_like(target_hidden, NAN), **rest)

    with mock.patch.object(worker, "_append_target_hidden_to_draft_kv_by_loc", append):
        yield


@pytest.mark.parametrize("fault", [draft_weights, draft_kv])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_bad_draft_proposes_real_tokens_is_hardly_accepted_and_leaves_the_text(engine, fault, temperature):
    prompts, sent = three(temperature)
    vocab = engine.scheduler.model_config.vocab_size
    with logged_rounds() as log, fault(engine):
        outputs = engine.generate(sent)
    assert_well(engine, prompts, outputs)
    assert engine.draft_worker.repairs.total == 0, "the target's rows are sound"
    drafted = [r for out in outputs for r in log.of(out.rid)]
    assert any(not r.scores.isfinite().all() or (r.scores == 0).all() for r in drafted), "the fault was not felt"
    for r in drafted:
        assert ((r.proposals >= 0) & (r.proposals < vocab)).all() and r.q.isfinite().all()
    engine.flush()
    again = engine.generate([Request(prompts[0], {"max_new_tokens": STEPS, "ignore_eos": True})])[0]
    assert len(again.accept_lengths) < max(len(out.accept_lengths) for out in outputs), "it recovers"
