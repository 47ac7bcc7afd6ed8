"""SGLang's accept and walk kernels under Triton's interpreter, against the plain definitions.

Not collected by itself: Triton decides about its interpreter when it is first imported, so `test_interpreter.py` runs
this file in a process of its own with TRITON_INTERPRET=1.
"""

from __future__ import annotations

import os

import pytest
import torch
from sglang.kernels.ops.speculative import dflash
from sglang.kernels.ops.speculative.reject_sampling import chain_speculative_sampling_triton

from sglang_dspine.reference.accept import greedy_accept, rejection_accept
from sglang_dspine.reference.walk import greedy_walk, sampled_walk

assert os.environ.get("TRITON_INTERPRET") == "1", "run test_interpreter.py instead"


def kernel_accept(proposals, q, p, uniforms, **kwargs):
    """Tokens of each row up to the accepted length, by SGLang's acceptor. q, p dense [N, W-1, V], [N, W, V]."""
    n, width = p.shape[:2]
    candidates = torch.cat([torch.zeros(n, 1, dtype=torch.int64), proposals], dim=1)
    slots = torch.arange(n * width).view(n, width)
    predicts = torch.full((n * width,), -1, dtype=torch.int32)
    accept_index = torch.full((n, width), -1, dtype=torch.int32)
    count = torch.empty(n, dtype=torch.int32)
    chain_speculative_sampling_triton(
        predicts=predicts,
        accept_index=accept_index,
        accept_token_num=count,
        candidates=candidates,
        retrive_index=slots,
        retrive_next_token=None,
        retrive_next_sibling=None,
        uniform_samples=uniforms[:, :-1].contiguous(),
        uniform_samples_for_final_sampling=uniforms[:, -1].contiguous(),
        target_probs=p,
        draft_probs=q,
        threshold_single=1.0,
        threshold_acc=1.0,
        deterministic=True,
        **kwargs,
    )
    predicts = predicts.view(n, width)
    return [predicts[i, : count[i] + 1].tolist() for i in range(n)]


def drawn_problem(seed, n=64, width=5, vocab=11, k=4, sharpness=1.5):
    """Proposals drawn from a sparse q, a target law near it, and uniforms."""
    g = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, width, vocab, generator=g) * sharpness
    p = torch.softmax(scores, -1)
    near = scores[:, :-1] + 0.7 * torch.randn(n, width - 1, vocab, generator=g)
    top = near.topk(k, -1)
    q = torch.softmax(top.values, -1)
    place = torch.multinomial(q.view(-1, k), 1, generator=g).view(n, width - 1, 1)
    proposals = top.indices.gather(-1, place).squeeze(-1)
    uniforms = torch.rand(n, width, generator=g)
    return proposals, top.indices, q, p, uniforms


def dense(candidates, q, vocab):
    return torch.zeros(*q.shape[:2], vocab).scatter(-1, candidates, q)


@pytest.mark.parametrize("seed", range(3))
def test_the_acceptor_emits_what_the_plain_definition_emits(seed):
    proposals, candidates, q, p, uniforms = drawn_problem(seed)
    plain = rejection_accept(proposals, candidates, q, p, uniforms)
    expected = [plain.tokens[i, :length].tolist() for i, length in enumerate(plain.lengths)]
    assert kernel_accept(proposals, dense(candidates, q, p.shape[-1]), p, uniforms) == expected
    assert len({len(row) for row in expected}) == p.shape[1]  # every accepted length occurs


def test_the_acceptor_reads_vocabularies_of_more_than_one_tile():
    proposals, candidates, q, p, uniforms = drawn_problem(3, n=12, width=3, vocab=9000, k=8, sharpness=3.0)
    plain = rejection_accept(proposals, candidates, q, p, uniforms)
    expected = [plain.tokens[i, :length].tolist() for i, length in enumerate(plain.lengths)]
    assert kernel_accept(proposals, dense(candidates, q, 9000), p, uniforms) == expected


def test_a_planted_wrong_q_changes_what_the_acceptor_emits():
    proposals, candidates, q, p, uniforms = drawn_problem(0)
    wrong = torch.softmax(q.log() / 0.9, -1)
    right = kernel_accept(proposals, dense(candidates, q, p.shape[-1]), p, uniforms)
    assert kernel_accept(proposals, dense(candidates, wrong, p.shape[-1]), p, uniforms) != right


def test_an_accepted_token_was_possible_under_q():
    """A proposal q gives no probability is refused, however likely the target finds it."""
    p = torch.tensor([[[0.1, 0.9], [0.5, 0.5]]])
    q = torch.tensor([[[1.0, 0.0]]])
    assert len(kernel_accept(torch.tensor([[1]]), q, p, torch.tensor([[0.0, 0.5]]))[0]) == 1


def test_a_target_row_that_is_no_number_ends_in_the_last_id():
    """sglang#35324: why rows are repaired before they reach the acceptor."""
    proposals, candidates, q, p, uniforms = drawn_problem(0, n=4, width=3)
    p[1, 0] = float("nan")
    emitted = kernel_accept(proposals, dense(candidates, q, p.shape[-1]), p, uniforms)
    assert emitted[1] == [p.shape[-1] - 1]


@pytest.mark.parametrize("width", [2, 4, 7, 16])
def test_the_greedy_acceptor_emits_what_the_plain_definition_emits(width):
    g = torch.Generator().manual_seed(width)
    n = 40
    target = torch.randint(0, 3, (n, width), generator=g)
    keep = torch.rand(n, width - 1, generator=g) < 0.8
    proposals = torch.where(keep, target[:, :-1], torch.randint(0, 3, (n, width - 1), generator=g))
    candidates = torch.cat([torch.zeros(n, 1, dtype=torch.int64), proposals], dim=1)
    count, commit = torch.empty(n, dtype=torch.int32), torch.empty(n, dtype=torch.int32)
    bonus, seq_lens = torch.empty(n, dtype=torch.int64), torch.empty(n, dtype=torch.int64)
    out = torch.empty(n, width, dtype=torch.int64)
    prefix = torch.arange(n) + 10
    dflash._compute_dflash_accept_bonus_triton_unchecked(
        candidates=candidates,
        target_top1=target,
        accept_lens_out=count,
        commit_lens_out=commit,
        bonus_ids_out=bonus,
        out_tokens_out=out,
        prefix_lens=prefix,
        new_seq_lens_out=seq_lens,
    )
    plain = greedy_accept(proposals, target)
    assert commit.tolist() == plain.lengths.tolist() == (count + 1).tolist()
    assert seq_lens.tolist() == (prefix + plain.lengths).tolist()
    for i, length in enumerate(plain.lengths):
        assert out[i, :length].tolist() == plain.tokens[i, :length].tolist()
        assert bonus[i] == plain.tokens[i, length - 1]


def walk_problem(seed, n=9, slots=6, k=8):
    g = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, slots, k, k, generator=g) * 2
    scores[:, 0] = scores[:, 0, :1]  # every predecessor of the first row is the anchor
    candidates = torch.stack([torch.randperm(50, generator=g)[:k] for _ in range(n * slots)]).view(n, slots, k)
    temperatures = torch.tensor([0.2, 0.7, 1.0, 1.5] * n)[:n]
    return scores, candidates, temperatures, torch.rand(n, slots, generator=g)


@pytest.mark.parametrize("seed", range(3))
def test_the_walk_takes_the_path_and_the_q_of_the_plain_walk(seed):
    scores, candidates, temperatures, uniforms = walk_problem(seed)
    greedy = torch.arange(len(scores)) % 3 == 0
    tokens, q = dflash.selector_walk_triton(
        candidate_ids=candidates,
        scores=scores,
        uniforms=uniforms,
        temperatures=temperatures,
        greedy_mask=greedy,
    )
    plain = sampled_walk(scores, candidates, torch.where(greedy, 0.0, temperatures), uniforms)
    assert tokens.tolist() == plain.tokens.tolist()
    torch.testing.assert_close(q.double(), plain.q, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(q.sum(-1), torch.ones(q.shape[:2]))


def test_ties_go_to_the_first_candidate():
    scores, candidates, temperatures, uniforms = walk_problem(0)
    scores = scores.round()
    tokens, _ = dflash.selector_walk_triton(
        candidate_ids=candidates,
        scores=scores,
        uniforms=uniforms,
        temperatures=temperatures,
        greedy_mask=torch.ones(len(scores), dtype=torch.bool),
    )
    assert tokens.tolist() == greedy_walk(scores, candidates).tokens.tolist()
