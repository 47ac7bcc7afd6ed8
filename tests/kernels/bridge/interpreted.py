"""The bridge's launches under Triton's interpreter against `inject_naive`; `../test_interpreted.py` runs them."""

from __future__ import annotations

import pytest
import torch

from sglang_dspine.kernels.bridge.naive import Injected, LayerBridge, inject_naive
from sglang_dspine.kernels.bridge.plan import arrivals, plan_injection
from tests.kernels.ratio import ratio_error

VOCAB = 50


def made(hidden: int, rank: int, message: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> LayerBridge:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int, scale: float) -> torch.Tensor:
        return (torch.randn(*shape, generator=g) * scale).to(dtype)

    return LayerBridge(
        readout=normal(rank, hidden, scale=hidden**-0.5),
        features_to_message=normal(3 * message, rank, scale=rank**-0.5),
        bias=normal(message, scale=0.5),
        write=normal(hidden, message, scale=message**-0.5),
        token_gate=normal(VOCAB, message, scale=1.0),
        token_message=normal(VOCAB, message, scale=1.0),
    )


def rows(blocks: int, width: int, hidden: int, dtype: torch.dtype = torch.float32, seed: int = 1):
    g = torch.Generator().manual_seed(seed)
    residual, delta = torch.randn(2, blocks, width, hidden, generator=g).to(dtype)
    return residual, delta, torch.randint(VOCAB, (blocks,), generator=g)


def run(residual, delta, anchor, weights, few: bool | None = None) -> Injected:
    launches, injected = plan_injection(residual, delta, anchor, weights, few)
    for launch in launches:
        launch.run()
    return injected


SHAPES = [(1, 2, 40, 24, 12), (3, 5, 96, 40, 20), (5, 16, 72, 40, 24)]


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("blocks, width, hidden, rank, message", SHAPES)
def test_every_output_is_the_naive_ones_at_odd_shapes(blocks, width, hidden, rank, message, few):
    weights = made(hidden, rank, message)
    residual, delta, anchor = rows(blocks, width, hidden)
    found, expected = run(residual, delta, anchor, weights, few), inject_naive(residual, delta, anchor, weights)
    assert torch.equal(found.before, expected.before)
    assert ratio_error(found.after, expected.after) < 1e-6
    assert ratio_error(found.receive, expected.receive) < 1e-6


def test_sixteen_bits_are_as_near_to_the_exact_result_as_the_naive_form():
    """In float16: the interpreter multiplies no BF16 matrices. BF16 is compared on a GPU (bench.stages)."""
    weights = made(96, 40, 24, torch.float16)
    residual, delta, anchor = rows(3, 8, 96, torch.float16)
    found, naive = run(residual, delta, anchor, weights), inject_naive(residual, delta, anchor, weights)
    wide = LayerBridge(*(w.double() for w in weights))
    exact = inject_naive((residual + delta).double(), None, anchor, wide)
    assert torch.equal(found.before, naive.before) and torch.equal(found.after[:, 0], naive.before[:, 0])
    for name in ("after", "receive"):
        a, b, c = (getattr(injected, name) for injected in (found, naive, exact))
        assert ratio_error(a, c) <= 1.1 * ratio_error(b, c) < 0.002


def test_without_a_delta_the_residual_stream_is_taken_as_it_is():
    weights = made(64, 32, 16)
    residual, _, anchor = rows(2, 6, 64)
    found = run(residual, None, anchor, weights)
    assert found.before.data_ptr() == residual.data_ptr()
    assert ratio_error(found.after, inject_naive(residual, None, anchor, weights).after) < 1e-6


def test_anchors_may_lie_a_block_apart():
    weights = made(64, 32, 16)
    residual, delta, anchor = rows(3, 4, 64)
    ids = torch.zeros(3, 4, dtype=torch.int64)
    ids[:, 0] = anchor
    assert torch.equal(run(residual, delta, ids[:, 0], weights).after, run(residual, delta, anchor, weights).after)


def test_the_split_sums_leave_their_counters_at_zero():
    weights = made(256, 16, 16)
    residual, delta, anchor = rows(2, 4, 256)
    first = run(residual, delta, anchor, weights)
    assert arrivals(residual.device).sum() == 0
    assert torch.equal(run(residual, delta, anchor, weights).after, first.after)


def test_a_zero_row_stays_finite_and_zero():
    weights = made(64, 32, 16)
    residual, _, anchor = rows(2, 6, 64)
    residual[:, 3] = 0
    found = run(residual, None, anchor, weights)
    assert found.after.isfinite().all() and found.receive.isfinite().all()
    assert torch.equal(found.after[:, 3], residual[:, 3])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_row_that_is_not_finite_harms_itself_and_its_successor_alone(bad):
    weights = made(64, 32, 16)
    residual, delta, anchor = rows(2, 6, 64)
    good = run(residual, delta, anchor, weights)
    residual[1, 2, 5] = bad
    found = run(residual, delta, anchor, weights)
    kept = torch.ones(2, 6, dtype=torch.bool)
    kept[1, 2:4] = False
    assert torch.equal(found.after[kept], good.after[kept])


def test_a_fault_in_the_predecessor_is_seen():
    """The comparison itself: features of the row two before, not one, must show."""
    weights = made(64, 32, 16)
    residual, delta, anchor = rows(2, 6, 64)
    found = run(residual, delta, anchor, weights).after
    wrong = inject_naive(residual.roll(1, 1), delta.roll(1, 1), anchor, weights).after.roll(-1, 1)
    assert ratio_error(found[:, 3:5], wrong[:, 3:5]) < 1e-6, "the same rows moved along stay the same"
    residual[:, 2] = residual[:, 1]
    delta[:, 2] = delta[:, 1]
    assert ratio_error(found[:, 3], inject_naive(residual, delta, anchor, weights).after[:, 3]) > 1e-3
