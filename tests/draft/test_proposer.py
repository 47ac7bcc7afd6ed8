"""What a batch asks of the walk: who is greedy, and at which temperature the others draw."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from sglang_dspine.draft.proposer import MIN_TEMPERATURE, Proposer


@pytest.fixture
def proposer():
    made = Proposer.__new__(Proposer)
    made.temperatures, made.greedy = torch.full((6,), 9.0), torch.zeros(6, dtype=torch.bool)
    return made


def sampling(temperatures, top_ks, all_greedy=False):
    return SimpleNamespace(
        temperatures=torch.tensor(temperatures)[:, None], top_ks=torch.tensor(top_ks), is_all_greedy=all_greedy
    )


def test_a_mixed_batch_keeps_each_requests_way(proposer):
    proposer.stage(3, sampling([1.0, 0.7, 0.0], [1, 2, 1 << 30]))
    assert proposer.greedy[:3].tolist() == [True, False, False]
    torch.testing.assert_close(proposer.temperatures[:3], torch.tensor([1.0, 0.7, MIN_TEMPERATURE]))
    assert proposer.greedy[3:].tolist() == [False] * 3, "rows beyond the batch are left alone"


@pytest.mark.parametrize("info", [None, sampling([0.3, 0.3], [5, 5], all_greedy=True)], ids=["none", "all greedy"])
def test_a_greedy_batch_leaves_no_temperature_of_an_earlier_one(proposer, info):
    proposer.stage(2, sampling([0.3, 0.4], [5, 5]))
    proposer.stage(2, info)
    assert proposer.greedy[:2].all() and torch.equal(proposer.temperatures[:2], torch.ones(2))
