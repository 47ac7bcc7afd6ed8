"""The causal convolution against its definition, and its ways of being called against one another."""

from __future__ import annotations

import math

import pytest
import torch

conv = pytest.importorskip("sgl_kernel.conv")

CHANNELS, WIDTH, SLOTS = 3, 4, 6


@pytest.fixture
def given():
    torch.manual_seed(0)
    return torch.randn(CHANNELS, WIDTH), torch.randn(CHANNELS), torch.randn(SLOTS, CHANNELS, WIDTH - 1)


def defined(history, x, weight, bias):
    """history [C, W-1], x [C, T] -> silu(bias + sum over taps), number by number in float64."""
    padded = torch.cat([history, x], 1).double()
    out = torch.zeros(x.shape, dtype=torch.float64)
    for channel in range(x.shape[0]):
        for t in range(x.shape[1]):
            y = float(bias[channel])
            for tap in range(WIDTH):
                y += float(weight[channel, tap]) * float(padded[channel, t + tap])
            out[channel, t] = y / (1 + math.exp(-y))
    return out


def prefill(x, weight, bias, states, slots, lengths, fresh):
    starts = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()])
    return conv.causal_conv1d_fn_cpu(
        x, weight, bias, "silu", states, torch.tensor([not new for new in fresh]), torch.tensor(slots), starts
    )


def test_prefill_is_the_definition_for_every_request(given):
    weight, bias, states = given
    before, x = states.clone(), torch.randn(CHANNELS, 9)
    y = prefill(x, weight, bias, states, [4, 1], [7, 2], fresh=[True, False])
    for part, x_part, history, slot in (
        (y[:, :7], x[:, :7], torch.zeros(CHANNELS, WIDTH - 1), 4),
        (y[:, 7:], x[:, 7:], before[1], 1),
    ):
        torch.testing.assert_close(part.double(), defined(history, x_part, weight, bias), rtol=1e-5, atol=1e-6)
        assert torch.equal(states[slot], torch.cat([history, x_part], 1)[:, -(WIDTH - 1) :])


def test_chunks_give_the_same_bits_as_one_prefill(given):
    weight, bias, states = given
    x, chunked = torch.randn(CHANNELS, 9), states.clone()
    whole = prefill(x, weight, bias, states, [2], [9], fresh=[True])
    pieces = [
        prefill(part, weight, bias, chunked, [2], [part.shape[1]], fresh=[i == 0])
        for i, part in enumerate(x.split([1, 5, 3], 1))
    ]
    assert torch.equal(torch.cat(pieces, 1), whole)
    assert torch.equal(chunked[2], states[2])


def test_decoding_one_by_one_gives_the_same_bits_as_a_prefill(given):
    weight, bias, states = given
    x, single = torch.randn(CHANNELS, 5), states.clone()
    whole = prefill(x, weight, bias, states, [2], [5], fresh=[False])
    for t in range(5):
        row = conv.causal_conv1d_update_cpu(
            x[None, :, t], single, weight, bias, "silu", conv_state_indices=torch.tensor([2])
        )
        assert torch.equal(row[0], whole[:, t])
    assert torch.equal(single, states)


def test_verification_leaves_the_state_alone_and_keeps_every_candidate(given):
    weight, bias, states = given
    before, x = states.clone(), torch.randn(2, CHANNELS, 5)
    windows = torch.zeros(4, 8, CHANNELS, WIDTH - 1)
    y = conv.causal_conv1d_update_cpu(
        x, states, weight, bias, "silu", conv_state_indices=torch.tensor([5, 0]),
        intermediate_conv_window=windows, intermediate_state_indices=torch.tensor([3, 1]),
    )  # fmt: skip
    assert torch.equal(states, before)
    for request, (slot, into) in enumerate([(5, 3), (0, 1)]):
        for t in range(5):
            row = conv.causal_conv1d_update_cpu(
                x[request : request + 1, :, t], states, weight, bias, "silu", conv_state_indices=torch.tensor([slot])
            )
            assert torch.equal(row[0], y[request, :, t])
            assert torch.equal(states[slot], windows[into, t])


def test_a_padded_request_is_skipped(given):
    weight, bias, states = given
    before = states.clone()
    y = conv.causal_conv1d_update_cpu(
        torch.randn(2, CHANNELS), states, weight, bias, "silu", conv_state_indices=torch.tensor([-1, 3])
    )
    assert torch.equal(y[0], torch.zeros(CHANNELS))
    changed = [slot for slot in range(SLOTS) if not torch.equal(states[slot], before[slot])]
    assert changed == [3]
