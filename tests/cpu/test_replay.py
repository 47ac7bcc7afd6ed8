"""The stand-in's verify with rings against its verify with states, and its cursors against their rule."""

from __future__ import annotations

import pytest
import torch

from .test_gated_delta import K_DIM, K_HEADS, V_DIM, V_HEADS, Inputs

replay = pytest.importorskip("sgl_kernel.replay")

RING, REQUESTS, WIDTH = 16, 4, 5


class Rings:
    def __init__(self, low: bool) -> None:
        kind = torch.bfloat16 if low else torch.float32
        made = lambda *shape: torch.full((REQUESTS, *shape), float("nan"), dtype=kind)  # noqa: E731
        self.d, self.k = made(V_HEADS, RING, V_DIM), made(K_HEADS, RING, K_DIM)
        self.d_low, self.k_low = (self.d.clone(), self.k.clone()) if low else (None, None)
        self.g = torch.full((REQUESTS, V_HEADS, RING), float("nan"))
        self.length, self.base = torch.tensor([9, 0, 0, 9]).int(), torch.tensor([0, 14, 3, 0]).int()
        self.flags = torch.zeros(REQUESTS, dtype=torch.int8)

    def verify(self, x: Inputs, slots, rings) -> torch.Tensor:
        out = torch.full((x.v.shape[1], V_HEADS, V_DIM), 7.0)
        return replay.verify(
            x.q[0], x.k[0], x.v[0], x.a, x.b, x.a_log, x.dt_bias, x.pool, self.d, self.k, self.g, self.d_low,
            self.k_low, None, out, torch.arange(len(slots) + 1) * WIDTH, torch.tensor(slots), torch.tensor(rings),
            self.length, self.base, self.flags, RING, WIDTH, null_block_id=-1, launch_mode="verify",
        )  # fmt: skip


@pytest.mark.parametrize("low", [False, True], ids=["float32 rings", "bfloat16 rings with rests"])
def test_two_blocks_over_a_wrapping_ring_are_the_recurrence_over_the_accepted_rows(low):
    first, second, rings = Inputs(2 * WIDTH, seed=1), Inputs(2 * WIDTH, seed=2), Rings(low)
    second.a_log, second.dt_bias, second.pool = first.a_log, first.dt_bias, first.pool
    slots, where, accepted, close = [3, 1], [1, 2], [4, 2], 2e-4 if low else 1e-5
    pool = first.pool.clone()
    rings.verify(first, slots, where)
    replay.advance(rings.length, rings.base, rings.flags, torch.tensor(accepted), torch.tensor(where), RING, 5, False)
    found = rings.verify(second, slots, where)
    assert torch.equal(first.pool, pool), "verify leaves states alone"
    for i, slot in enumerate(slots):
        _, states = first.rows(i * WIDTH, (i + 1) * WIDTH).defined(pool[slot])
        expected, _ = second.rows(i * WIDTH, (i + 1) * WIDTH).defined(states[accepted[i] - 1])
        torch.testing.assert_close(found[i * WIDTH : (i + 1) * WIDTH].double(), expected, rtol=close, atol=close)
    assert rings.length.tolist() == [9, 4, 2, 9] and rings.base.tolist() == [0, 14, 3, 0]


def test_a_padded_request_yields_zeros_and_touches_no_ring():
    x, rings = Inputs(2 * WIDTH), Rings(False)
    found = rings.verify(x, [-1, 2], [0, 1])
    assert (found[:WIDTH] == 0).all() and found[WIDTH:].abs().sum() > 0
    assert rings.d[0].isnan().all() and rings.g[0].isnan().all()


@pytest.mark.parametrize(("held", "accepted", "always", "due"), [(0, 7, False, True), (0, 6, False, False),
                         (4, 3, False, True), (0, 1, True, True), (0, 0, True, False)])  # fmt: skip
def test_a_history_is_due_when_two_more_blocks_would_not_fit_behind_it(held, accepted, always, due):
    length, base, flags = torch.tensor([held]).int(), torch.tensor([3]).int(), torch.zeros(1, dtype=torch.int8)
    replay.advance(length, base, flags, torch.tensor([accepted]), torch.tensor([0]), RING, WIDTH, always, None, -1)
    assert (length.tolist(), base.tolist(), flags.tolist()) == ([held + accepted], [3], [int(due)])
