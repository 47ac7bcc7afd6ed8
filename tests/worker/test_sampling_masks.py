"""A returned sampling mask holds what could have been drawn, by the law that was drawn from (report 21)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from sglang_dspine.verify.decide import Decision
from sglang_dspine.verify.filter import target_distribution
from sglang_dspine.worker.round import sampling_masks

pytestmark = pytest.mark.report(21)
LOGITS = torch.tensor([0.35, 0.25, 0.20, 0.05, 0.03, 0.03, 0.03, 0.03, 0.03]).log()
N, W = 2, 3


def info(top_k: int = 4, top_p: float = 0.82) -> SimpleNamespace:
    return SimpleNamespace(
        temperatures=torch.ones(N, 1), top_ks=torch.full((N,), top_k), top_ps=torch.full((N,), top_p),
        min_ps=torch.zeros(N), need_top_k_sampling=True, need_top_p_sampling=True, need_min_p_sampling=False,
        sampling_mask_batch_indices=torch.tensor([1]), sampling_mask_top_ks=[top_k],
        sampling_support_logprobs_capture_indices=None,
    )  # fmt: skip


def decided(token: int) -> Decision:
    return Decision(torch.tensor([0, 2]), torch.tensor([token, token]), torch.full((N, W), token))


@pytest.mark.parametrize(("token", "inside"), [(0, True), (3, True), (4, False)])
def test_the_mask_holds_every_token_that_plain_sampling_could_draw_and_no_other(token, inside):
    """Token 3 has 0.80 of mass above it, at most top-p 0.82; renormalised after top-k it would have 0.94 and be out."""
    law = target_distribution(LOGITS.expand(N * W, -1), info(), W, 4)
    found = sampling_masks(info(), law, decided(token))
    assert found.token_ids.shape == (1, W, 4) and (found.lengths == 4).all()
    assert found.token_ids[0, 0].sort().values.tolist() == [0, 1, 2, 3]
    assert found.selected_logprobs.isfinite().all() == inside


def test_a_greedy_batch_could_have_drawn_its_own_tokens_alone():
    found = sampling_masks(info(1), None, decided(5))
    assert found.token_ids.flatten().tolist() == [5] * W and (found.lengths == 1).all()
