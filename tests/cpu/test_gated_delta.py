"""The gated delta rule against its recurrence, and its ways of being called against one another."""

from __future__ import annotations

import pytest
import torch

gated_delta = pytest.importorskip("sgl_kernel.gated_delta")
gating = pytest.importorskip("sgl_kernel.gating")

K_HEADS, V_HEADS, K_DIM, V_DIM, SLOTS = 2, 4, 8, 6, 5


class Inputs:
    """Random inputs of `tokens` rows, as SGLang passes them."""

    def __init__(self, tokens, seed=0):
        torch.manual_seed(seed)
        self.q, self.k = torch.randn(2, 1, tokens, K_HEADS, K_DIM)
        self.v = torch.randn(1, tokens, V_HEADS, V_DIM)
        self.a, self.b = torch.randn(2, tokens, V_HEADS)
        self.a_log, self.dt_bias = torch.randn(2, V_HEADS)
        self.pool = torch.randn(SLOTS, V_HEADS, V_DIM, K_DIM)

    def rows(self, first, last):
        part = Inputs.__new__(Inputs)
        part.__dict__.update(self.__dict__)
        part.q, part.k, part.v = (x[:, first:last] for x in (self.q, self.k, self.v))
        part.a, part.b = self.a[first:last], self.b[first:last]
        return part

    def prefill(self, pool, slots, lengths):
        g, beta = gating.fused_gdn_gating_cpu(self.a_log, self.a, self.b, self.dt_bias)
        starts = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()])
        return gated_delta.chunk_gated_delta_rule_cpu(
            self.q, self.k, self.v, g, beta, pool, starts, torch.tensor(slots)
        )

    def step(self, pool, slots, **verify):
        """Decode, or verify with the same number of rows for each of `slots`."""
        rows = self.v.shape[1] // len(slots)
        return gated_delta.fused_sigmoid_gating_delta_rule_update_cpu(
            self.a_log, self.dt_bias, self.q, self.k, self.v, self.a, self.b, pool, torch.tensor(slots),
            torch.arange(len(slots) + 1) * rows, **verify,
        )  # fmt: skip

    def defined(self, state):
        """The recurrence in float64, a head and a row at a time; state [HV, V, K] -> o, states after each row."""
        out, states, state = torch.zeros(self.v.shape[1:]).double(), [], state.double().clone()
        decay = torch.exp(-self.a_log.double().exp() * torch.log1p((self.a.double() + self.dt_bias).exp()))
        for t in range(self.v.shape[1]):
            for head in range(V_HEADS):
                q, k = (x[0, t, head // (V_HEADS // K_HEADS)].double() for x in (self.q, self.k))
                q, k = (x / (x @ x + 1e-6).sqrt() for x in (q, k))
                faded = decay[t, head] * state[head]
                beta = torch.sigmoid(self.b[t, head].double())
                state[head] = faded + beta * torch.outer(self.v[0, t, head].double() - faded @ k, k)
                out[t, head] = state[head] @ q / K_DIM**0.5
            states.append(state.clone())
        return out, states


def test_prefill_is_the_recurrence_and_moves_the_state():
    given = Inputs(12)
    pool, before = given.pool.clone(), given.pool
    out, _, _ = given.prefill(pool, [3, 1], [7, 5])
    for first, last, slot in ((0, 7, 3), (7, 12, 1)):
        expected, states = given.rows(first, last).defined(before[slot])
        torch.testing.assert_close(out[0, first:last].double(), expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(pool[slot].double(), states[-1], rtol=1e-4, atol=1e-5)
    assert torch.equal(pool[[0, 2, 4]], before[[0, 2, 4]])


def test_prefill_returns_the_state_before_each_chunk():
    given = Inputs(70 + 64)
    _, _, h = given.prefill(given.pool.clone(), [3, 1], [70, 64])
    assert h.shape[1] == 3
    expected = given.pool.clone()
    given.rows(0, 64).prefill(expected, [3], [64])
    assert torch.equal(h[0, 0], given.pool[3])
    assert torch.equal(h[0, 1], expected[3])
    assert torch.equal(h[0, 2], given.pool[1])


def test_decoding_one_by_one_gives_the_same_bits_as_a_prefill():
    given = Inputs(6)
    pool, single = given.pool.clone(), given.pool.clone()
    out, _, _ = given.prefill(pool, [2], [6])
    rows = [given.rows(t, t + 1).step(single, [2]) for t in range(6)]
    assert torch.equal(torch.cat(rows, 1), out)
    assert torch.equal(single, pool)


def test_verification_keeps_every_candidate_with_the_bits_of_decoding():
    given = Inputs(2 * 5)
    pool, states = given.pool.clone(), torch.zeros(4, 8, V_HEADS, V_DIM, K_DIM)
    out = given.step(
        pool, [4, 0], disable_state_update=True, intermediate_states_buffer=states,
        intermediate_state_indices=torch.tensor([3, 1]),
    )  # fmt: skip
    assert torch.equal(pool, given.pool)
    for request, (slot, into) in enumerate([(4, 3), (0, 1)]):
        for t in range(5):
            row = given.rows(5 * request + t, 5 * request + t + 1).step(pool, [slot])
            assert torch.equal(row[0, 0], out[0, 5 * request + t])
            assert torch.equal(pool[slot], states[into, t])


def test_a_padded_request_is_skipped():
    given = Inputs(2)
    pool = given.pool.clone()
    out = given.step(pool, [-1, 3])
    assert torch.equal(out[0, 0], torch.zeros(V_HEADS, V_DIM))
    assert torch.equal(pool[[0, 1, 2, 4]], given.pool[[0, 1, 2, 4]])
    assert not torch.equal(pool[3], given.pool[3])


def test_trees_are_refused():
    with pytest.raises(NotImplementedError, match="chains"):
        Inputs(2).step(torch.zeros(1), [0], retrieve_parent_token=torch.zeros(1, 2))
