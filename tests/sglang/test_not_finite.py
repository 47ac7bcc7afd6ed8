"""A target row that is not finite is repaired where it stands; the other requests do not notice (report 1)."""

from __future__ import annotations

import logging
from unittest import mock

import pytest

from sglang_dspine.verify import repair_log
from sglang_dspine.worker import round as rounds

from ..support import pairs
from ..support.engine import Request
from ..support.oracle import assert_greedy
from ..support.pairs import EXTRA_BUFFER, held_out_code

pytestmark = pytest.mark.report(1)
STEPS = 24


@pytest.fixture
def ailing(engines):
    """An engine whose target forgets itself: rows 2 and up of the request "ailing" are NaN in its third round."""
    engine, seen = pairs.demo().served(engines, **EXTRA_BUFFER), []
    right = rounds.verify_forward

    def verify_forward(worker, batch, draft_input, block, tokens):
        result = right(worker, batch, draft_input, block, tokens)
        for i, req in enumerate(batch.reqs):
            if req.rid == "ailing":
                seen.append(req)
                if len(seen) == 3:
                    result.logits_output.next_token_logits.view(*tokens.shape, -1)[i, 2:] = float("nan")
        return result

    with mock.patch.object(rounds, "verify_forward", verify_forward):
        yield engine


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_bad_row_is_counted_and_named_and_costs_nobody_else_a_token(ailing, temperature, caplog):
    prompts, worker = held_out_code(3, 150), ailing.draft_worker
    worker.repairs = repair_log.RepairLog()
    width = worker.block_size
    sampling = {"max_new_tokens": STEPS, "ignore_eos": True}
    sent = [Request(ids, dict(sampling)) for ids in prompts]
    sent[1] = Request(prompts[1], {**sampling, "temperature": temperature}, rid="ailing")
    with caplog.at_level(logging.WARNING, logger=repair_log.__name__):
        outputs = ailing.generate(sent)
    assert worker.repairs.total == width - 2
    named = [r.getMessage() for r in caplog.records if r.name == repair_log.__name__]
    assert len(named) == 1 and "request ailing" in named[0]
    for i in (0, 2):
        assert_greedy(ailing.model_runner.server_args.model_path, prompts[i], outputs[i].output_ids)
    vocab = ailing.scheduler.model_config.vocab_size
    assert len(outputs[1].output_ids) == STEPS and outputs[1].finish_reason["type"] == "length"
    assert vocab - 1 not in outputs[1].output_ids, "the last vocabulary id came out"
