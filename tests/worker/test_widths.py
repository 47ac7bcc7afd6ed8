"""Rounds get their width, are counted with it, and an eager fall is never silent."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
import torch

from sglang_dspine.errors import DSpineError
from sglang_dspine.widths.plan import WidthPlan
from sglang_dspine.widths.policy import TablePolicy
from sglang_dspine.widths.table import SpsTable
from sglang_dspine.worker.stages import Half, Stage, on_stage
from sglang_dspine.worker.width_metrics import WidthMetrics
from sglang_dspine.worker.widths import Widths

TABLE = SpsTable((8, 4, 1), {"gpu": "none", "source": "a test"})


def runner(name: str):
    return SimpleNamespace(attn_backend=f"{name} backend", decode_cuda_graph_runner=SimpleNamespace(max_bs=3))


@pytest.fixture
def widths(monkeypatch):
    monkeypatch.delenv("DSPINE_EAGER_IS_ERROR", raising=False)
    worker = SimpleNamespace(
        model_runner=runner("target"), draft_model_runner=runner("draft"), graphs_on=True, device="cpu"
    )
    made = Widths(worker, WidthPlan(TablePolicy(TABLE), 8, TABLE), WidthMetrics(False))
    for width in (8, 4, 1):
        half = Half(f"backend {width}", SimpleNamespace(max_bs=2))
        made.stages[width] = Stage(width, half, half if width > 1 else None)
    return made


def test_each_batch_gets_its_width_and_the_gauge_shows_it(widths):
    assert [widths.choose(b) for b in (1, 2, 3, 9)] == [8, 4, 1, 1]
    assert widths.worker.speculative_num_draft_tokens == 1
    assert widths.report()["rounds_by_width"] == {"1": 2, "4": 1, "8": 1}


def test_a_round_runs_on_the_stage_of_its_width_and_leaves_sglangs_own_behind(widths):
    target, draft = widths.worker.model_runner, widths.worker.draft_model_runner
    with widths.stage(4):
        assert target.attn_backend == draft.attn_backend == "backend 4"
    with widths.stage(1):
        assert target.attn_backend == "backend 1" and draft.attn_backend == "draft backend"
    assert target.attn_backend == "target backend" and draft.attn_backend == "draft backend"


def test_an_error_in_a_round_puts_sglangs_own_back(widths):
    target = widths.worker.model_runner
    with pytest.raises(ValueError), on_stage(widths.stages[4], target, widths.worker.draft_model_runner):
        raise ValueError
    assert target.attn_backend == "target backend"


def test_outcomes_go_to_the_width_their_round_had_though_later_rounds_have_started(widths):
    noted = []
    widths.policy.note = lambda *what: noted.append(what)
    widths.choose(1)
    widths.choose(2)
    widths.finished(1, [7])
    widths.finished(2, [3, 0])
    widths.finished(2, [1, 1])  # nothing is running: a round of before the start
    assert noted == [(1, 8, [7]), (2, 4, [3, 0])]
    report = widths.report()
    assert report["accept_length_by_width"] == {"4": 2.5, "8": 8.0}
    assert report["accept_rate_by_width"] == {"4": 0.5, "8": 1.0}


def test_a_forced_width_overrides_the_policy_until_released(widths):
    widths.force(4)
    assert widths.choose(1) == 4
    widths.force(None)
    assert widths.choose(1) == 8


def test_a_width_without_a_stage_is_an_error_and_no_guess(widths):
    widths.force(5)
    with pytest.raises(DSpineError, match="width 5 was not prepared"):
        widths.choose(1)


def test_forwards_that_fall_out_of_the_graphs_are_counted_and_the_first_is_logged(widths, caplog):
    with caplog.at_level(logging.WARNING):
        for what, in_graph in (("draft", True), ("draft", False), ("draft", False), ("target", False)):
            widths.ran(what, in_graph, 33, 8)
    assert widths.report()["eager_forwards"] == {"draft": 2, "target": 1}
    assert len(caplog.records) == 2 and "batch of 33 at width 8" in caplog.text


def test_where_it_is_asked_for_an_eager_forward_is_an_error(widths, monkeypatch):
    monkeypatch.setenv("DSPINE_EAGER_IS_ERROR", "1")
    strict = Widths(widths.worker, widths.plan, widths.metrics)
    strict.stages = widths.stages
    with pytest.raises(DSpineError, match="eagerly"):
        strict.ran("target", False, 2, 4)


def test_without_graphs_an_eager_forward_is_no_event(widths):
    widths.worker.graphs_on = False
    widths.ran("draft", False, 2, 8)
    assert widths.report()["eager_forwards"] == {}


def test_sglang_is_told_the_width_of_each_request(widths):
    assert torch.equal(widths.cap_lens(3, 4), torch.tensor([4, 4, 4], dtype=torch.int32))
    assert widths.cap_lens(3, 4) is widths.cap_lens(3, 4)
