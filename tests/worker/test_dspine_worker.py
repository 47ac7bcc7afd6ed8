"""The worker's own small duties: counting eager drafts, embedding, one spec record per width."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
import torch

from sglang_dspine.worker.dspine_worker import DSpineWorker


@pytest.fixture
def worker():
    made = DSpineWorker.__new__(DSpineWorker)
    made.graphs_on, made.eager_drafts, made._spec_infos, made._noise_embed_scale = True, 0, {}, 1.0
    return made


def test_drafts_that_fall_out_of_the_graphs_are_counted_and_the_first_is_logged(worker, caplog):
    with caplog.at_level(logging.WARNING):
        for in_graph, size in ((True, 4), (False, 33), (False, 34)):
            worker.note_draft(in_graph, size)
    assert worker.eager_drafts == 2
    (record,) = caplog.records
    assert "batch of 33" in record.getMessage()


def test_without_graphs_an_eager_draft_is_no_event(worker, caplog):
    worker.graphs_on = False
    worker.note_draft(False, 2)
    assert worker.eager_drafts == 0 and not caplog.records


def test_the_targets_embedding_is_scaled_as_the_drafter_says(worker, monkeypatch):
    table = torch.nn.Embedding(10, 4)
    model = SimpleNamespace(get_input_embeddings=lambda: table)
    target = SimpleNamespace(model_runner=SimpleNamespace(model=model))
    monkeypatch.setattr(DSpineWorker, "target_worker", target, raising=False)
    ids = torch.tensor([[1, 2], [3, 9]])
    assert torch.equal(worker.embed(ids), table(ids))
    worker._noise_embed_scale = 2.0
    assert torch.equal(worker.embed(ids), 2 * table(ids))
