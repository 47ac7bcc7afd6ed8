"""The repair under Triton's interpreter against its plain form; `../test_interpreted.py` runs them."""

from __future__ import annotations

import itertools

import pytest
import torch

from sglang_dspine.kernels.repair.naive import repair_naive
from sglang_dspine.kernels.repair.plan import plan_repair

NAN, INF = float("nan"), float("inf")


def both(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As repaired by the kernel, and by the plain form."""
    mine, plain, most = logits.clone(), logits.clone(), logits.amax(-1)
    for launch in plan_repair(mine, most):
        launch.run()
    repair_naive(plain, most)
    return mine, plain


def same(logits: torch.Tensor) -> bool:
    mine, plain = both(logits)
    return mine.view(torch.uint8).equal(plain.view(torch.uint8))


def normal(rows: int, vocab: int) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("vocab", [3, 4096, 9001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_with_every_mixture_of_bad_numbers_become_the_plain_forms(vocab, dtype):
    mixtures = [c for n in range(4) for c in itertools.combinations((NAN, INF, -INF), n)]
    logits = normal(2 * len(mixtures), vocab)
    for row, bad in enumerate(mixtures):
        for place, value in enumerate(bad):
            logits[row, place::3] = value  # some numbers stay, but where all three take turns
            logits[len(mixtures) + row, -1 - place] = value
    assert same(logits.to(dtype))


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_a_row_with_nothing_left_becomes_zeros(value):
    logits = normal(3, 5000)
    logits[1] = value
    mine, _ = both(logits)
    assert (mine[1] == 0).all() and torch.equal(mine[[0, 2]], logits[[0, 2]])


def test_healthy_rows_keep_every_bit_masked_ones_too():
    logits = normal(4, 5000)
    logits[1, 7:] = -INF
    logits[2] = -0.0
    assert both(logits)[0].view(torch.uint8).equal(logits.view(torch.uint8))


def test_rows_with_a_stride_are_written_as_they_lie():
    wide = normal(3, 640)
    logits = wide[:, :600]
    logits[1, 5] = NAN
    kept, most = wide.clone(), logits.amax(-1)
    for launch in plan_repair(logits, most):
        launch.run()
    assert torch.equal(wide[:, 600:], kept[:, 600:]) and logits[1, 5] == -INF


def test_a_row_that_is_called_healthy_is_not_read():
    """What makes it cheap: the row's largest value alone decides."""
    logits = normal(1, 100)
    logits[0, 3] = NAN
    for launch in plan_repair(logits, torch.zeros(1)):
        launch.run()
    assert logits[0, 3].isnan()
