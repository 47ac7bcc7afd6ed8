"""The worker's own small duties: embedding, one spec record per width."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from sglang_dspine.worker.dspine_worker import DSpineWorker


@pytest.fixture
def worker():
    made = DSpineWorker.__new__(DSpineWorker)
    made._spec_infos, made._noise_embed_scale = {}, 1.0
    return made


def test_the_targets_embedding_is_scaled_as_the_drafter_says(worker, monkeypatch):
    table = torch.nn.Embedding(10, 4)
    model = SimpleNamespace(get_input_embeddings=lambda: table)
    target = SimpleNamespace(model_runner=SimpleNamespace(model=model))
    monkeypatch.setattr(DSpineWorker, "target_worker", target, raising=False)
    ids = torch.tensor([[1, 2], [3, 9]])
    assert torch.equal(worker.embed(ids), table(ids))
    worker._noise_embed_scale = 2.0
    assert torch.equal(worker.embed(ids), 2 * table(ids))
