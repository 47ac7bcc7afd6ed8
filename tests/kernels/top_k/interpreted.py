"""The two stages of top-k under Triton's interpreter against a stable sort; `../test_interpreted.py` runs them."""

from __future__ import annotations

import pytest
import torch

from sglang_dspine.kernels.top_k.naive import top_k_naive
from sglang_dspine.kernels.top_k.plan import plan_top_k


def run(logits: torch.Tensor, vocab: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    launches, values, ids = plan_top_k(logits, vocab, k)
    for launch in launches:
        launch.run()
    return values, ids


def same(logits: torch.Tensor, vocab: int, k: int) -> bool:
    (values, ids), (naive_values, naive_ids) = run(logits, vocab, k), top_k_naive(logits, vocab, k)
    return torch.equal(ids, naive_ids) and values.view(torch.uint8).equal(naive_values.contiguous().view(torch.uint8))


def normal(rows: int, vocab: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("rows, vocab, k", [(3, 16, 16), (5, 67, 8), (2, 1000, 16), (2, 9001, 5), (1, 300, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ids_and_values_are_the_stable_sorts(rows, vocab, k, dtype):
    assert same(normal(rows, vocab).to(dtype), vocab, k)


def test_a_vocabulary_of_more_groups_than_one_tile_holds_is_grouped_more_coarsely():
    assert same(normal(1, 150_000), 150_000, 16)


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_equal_values_go_to_the_lowest_id(levels):
    logits = (normal(4, 3000) * 10).round().remainder(levels)
    assert same(logits, 3000, 16)


def test_zeros_of_both_signs_are_equal():
    logits = torch.where(normal(2, 500) > 0, 0.0, -0.0)
    assert torch.equal(run(logits, 500, 16)[1], torch.arange(16).expand(2, 16))


def test_padding_that_scores_highest_never_wins():
    logits = normal(3, 640)
    logits[:, 601:] = 1e30
    assert same(logits, 601, 16) and run(logits, 601, 16)[1].max() < 601


def test_rows_with_a_stride_are_read_as_they_lie():
    assert same(normal(3, 1024)[:, :700], 700, 16)


@pytest.mark.parametrize("bad", [float("nan"), -float("nan"), float("inf"), float("-inf")])
def test_values_that_are_no_numbers_rank_as_torch_ranks_them(bad):
    logits = normal(3, 700)
    logits[0] = bad
    logits[1, 5::7] = bad
    logits[2, :690] = bad
    assert torch.equal(run(logits, 700, 16)[1], top_k_naive(logits, 700, 16)[1])


def test_a_group_left_out_is_seen():
    """The comparison itself: the best token hidden from the kernel must show."""
    logits = normal(2, 500)
    ids = run(logits, 500, 4)[1]
    logits[0, ids[0, 0]] = -9.0
    assert not torch.equal(run(logits, 500, 4)[1][0], ids[0])
