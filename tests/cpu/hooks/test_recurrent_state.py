"""Commits and snapshots of recurrent state, element by element."""

from __future__ import annotations

import pytest
import torch

recurrent_state = pytest.importorskip("sglang_cpu_platform.hooks.recurrent_state")

LAYERS, SLOTS, REQUESTS, ROWS = 2, 6, 4, 3


@pytest.fixture
def states():
    torch.manual_seed(0)
    return torch.randn(LAYERS, SLOTS, 2, 2), torch.randn(LAYERS, REQUESTS, ROWS, 2, 2)


@pytest.mark.parametrize("requests", [None, [3, 2, 1, 0]])
def test_the_chosen_row_becomes_the_state_and_nothing_else_moves(states, requests):
    pool, rows = states
    before, slots, steps = pool.clone(), [5, 0, -1, 2], [2, 0, 1, -1]
    source = torch.tensor(requests) if requests else None
    recurrent_state.commit_rows(pool, rows, torch.tensor(slots), torch.tensor(steps), source)
    expected = before.clone()
    for i in (0, 1):  # request 2 has no slot, request 3 no step
        for layer in range(LAYERS):
            expected[layer, slots[i]] = rows[layer, requests[i] if requests else i, steps[i]]
    assert torch.equal(pool, expected)


def test_only_marked_requests_are_snapshot(states):
    conv, _ = states
    ssm = torch.randn(LAYERS, SLOTS, 3)
    conv_before, ssm_before = conv.clone(), ssm.clone()
    slots, into = torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5])
    recurrent_state.snapshot_layers(conv, ssm, slots, torch.tensor([True, False, True]), into, 3)
    for pool, before in ((conv, conv_before), (ssm, ssm_before)):
        assert torch.equal(pool[:, [3, 5]], before[:, [0, 2]])
        assert torch.equal(pool[:, :3], before[:, :3]) and torch.equal(pool[:, 4], before[:, 4])


def test_one_layer_is_snapshot_like_all(states):
    conv, _ = states
    ssm = torch.randn(LAYERS, SLOTS, 3)
    expected = conv.clone(), ssm.clone()
    given = torch.tensor([0, 1]), torch.tensor([True, True]), torch.tensor([4, 5]), 2
    recurrent_state.snapshot_layers(*expected, *given)
    for layer in range(LAYERS):
        recurrent_state.snapshot_layer(conv[layer], ssm[layer], *given)
    assert torch.equal(conv, expected[0]) and torch.equal(ssm, expected[1])
