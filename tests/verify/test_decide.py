"""One batch, greedy and sampled requests side by side: each is decided by its own rule."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from sglang_dspine.verify.accept import accept_greedy
from sglang_dspine.verify.decide import commit_row, decide

N, W, V, K = 6, 5, 40, 4


def sampling(greedy: list[bool], temperature: float = 1.0) -> SimpleNamespace:
    return SimpleNamespace(
        is_all_greedy=all(greedy), sampling_seed=None, need_top_k_sampling=False, need_top_p_sampling=False,
        need_min_p_sampling=False, top_ks=torch.tensor([1 if g else 1 << 30 for g in greedy]),
        temperatures=torch.full((len(greedy), 1), temperature), top_ps=torch.ones(len(greedy)),
        min_ps=torch.zeros(len(greedy)),
    )  # fmt: skip


@pytest.fixture
def batch():
    """tokens [N, W], logits [N*W, V], candidates and q [N, W-1, K]; request 0's draft is right for two rows."""
    torch.manual_seed(0)
    logits = 3 * torch.randn(N * W, V)
    candidates = torch.rand(N, W - 1, V).argsort(-1)[..., :K]
    tokens = torch.cat([torch.zeros(N, 1, dtype=torch.int64), candidates[..., 0]], 1)
    tokens[0, 1:3] = logits.view(N, W, V)[0, :2].argmax(-1)
    candidates[0, :2, 0] = tokens[0, 1:3]
    q = torch.zeros(N, W - 1, K)
    q[..., 0] = 1.0
    return tokens, logits, candidates, q, torch.arange(N * W).view(N, W)


def decided(batch, info):
    tokens, logits, candidates, q, positions = batch
    return decide(tokens, logits, info, candidates, q, positions, None)


@pytest.mark.parametrize("info", [None, sampling([True] * N)], ids=["no sampling info", "all greedy"])
def test_greedy_batches_follow_the_argmax(batch, info):
    decision = decided(batch, info)
    accepted, bonus = accept_greedy(batch[0], batch[1].argmax(-1).view(N, W))
    assert torch.equal(decision.accepted, accepted) and torch.equal(decision.bonus, bonus)
    assert decision.accepted[0] == 2 and decision.commit_lens[0] == 3


def test_sampled_company_leaves_a_greedy_request_to_its_argmax(batch):
    alone, mixed = decided(batch, None), [decided(batch, sampling([True, False] * 3)) for _ in range(20)]
    for decision in mixed:
        assert torch.equal(decision.accepted[::2], alone.accepted[::2])
        assert torch.equal(decision.bonus[::2], alone.bonus[::2])
    assert len({tuple(d.bonus[1::2].tolist()) for d in mixed}) > 1, "the sampled requests never drew"


def test_a_cold_sampled_request_is_a_greedy_one(batch):
    found, expected = decided(batch, sampling([False] * N, temperature=1e-5)), decided(batch, None)
    assert torch.equal(found.accepted, expected.accepted) and torch.equal(found.bonus, expected.bonus)


def test_a_sampled_request_emits_the_targets_law():
    """Row 1 of one block, drawn many times: the frequencies are softmax of the logits, at the request's temperature."""
    torch.manual_seed(1)
    n = 20000
    logits, heat = 2 * torch.randn(2, 6), 0.7
    candidates = torch.tensor([0, 3, 5]).expand(n, 1, 3)
    q = torch.tensor([0.2, 0.5, 0.3])
    drawn = torch.multinomial(q.expand(n, 3), 1)
    tokens = torch.cat([torch.zeros(n, 1, dtype=torch.int64), candidates[:, 0].gather(1, drawn)], 1)
    positions = torch.arange(2).expand(n, 2)
    info = sampling([False] * n, heat)
    decision = decide(tokens, logits.repeat(n, 1), info, candidates, q.expand(n, 1, 3), positions, None)
    found = torch.bincount(decision.out_tokens[:, 0], minlength=6) / n
    torch.testing.assert_close(found, (logits[0] / heat).softmax(-1), rtol=0, atol=0.015)


def test_plain_decode_emits_the_targets_law_and_the_argmax_of_greedy_requests():
    """Width 1: one row, no proposal."""
    torch.manual_seed(2)
    n, logits, heat = 20000, 2 * torch.randn(6), 0.7
    nothing = torch.zeros(n, 0, 3, dtype=torch.int64)
    info = sampling([True, *[False] * (n - 1)], heat)
    anchors = torch.zeros(n, 1, dtype=torch.int64)
    decision = decide(anchors, logits.repeat(n, 1), info, nothing, nothing.float(), anchors, None)
    assert decision.commit_lens.unique().tolist() == [1] and decision.bonus[0] == logits.argmax()
    found = torch.bincount(decision.out_tokens[1:, 0], minlength=6) / (n - 1)
    torch.testing.assert_close(found, (logits / heat).softmax(-1), rtol=0, atol=0.015)


def test_emitted_tokens_are_the_accepted_proposals_and_the_bonus():
    tokens = torch.tensor([[9, 1, 2, 3], [9, 1, 2, 3], [9, 1, 2, 3]])
    out = commit_row(tokens, torch.tensor([0, 2, 3]), torch.tensor([50, 51, 52]))
    assert out[0, :1].tolist() == [50] and out[1, :3].tolist() == [1, 2, 51] and out[2].tolist() == [1, 2, 3, 52]
