"""Rank 0's acceptance is everyone's, whatever each rank's logits and draws say."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest
import torch

from sglang_dspine.verify.decide import Decision, decide
from sglang_dspine.verify.repair import repair_rows
from sglang_dspine.worker.agreement import Agreement

from ..support.ranks import Group

N, WIDTH, VOCAB, K = 5, 4, 24, 6


def batch(seed: int):
    """A block and logits in which every second row is a near-tie of its two best tokens, one of them proposed."""
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(VOCAB, (N, WIDTH), generator=g)
    logits = torch.randn(N, WIDTH, VOCAB, generator=g)
    proposals = torch.cat([tokens[:, 1:], torch.randint(VOCAB, (N, 1), generator=g)], 1)
    logits.scatter_(2, proposals[..., None], 5.0)
    logits[:, ::2].scatter_(2, (proposals[:, ::2, None] + 1) % VOCAB, 5.0)
    return tokens, logits.view(N * WIDTH, VOCAB)


def sampling(sampled: bool):
    top_ks = torch.full((N,), VOCAB if sampled else 1)
    return SimpleNamespace(
        is_all_greedy=not sampled, sampling_seed=None, top_ks=top_ks, temperatures=torch.ones(N, 1),
        need_top_k_sampling=False, need_top_p_sampling=False, need_min_p_sampling=False,
    )  # fmt: skip


def decided(group: Group, rank: int, seed: int, sampled: bool, agree: bool, spoil: bool = False) -> Decision:
    """What this rank commits; its logits carry noise of its own, and with `spoil` NaNs that the others do not see."""
    tokens, logits = batch(seed)
    own = torch.Generator().manual_seed(100 + rank)
    logits = logits + 1e-4 * torch.randn(logits.shape, generator=own)
    if spoil and rank == 1:
        logits[::3] = float("nan")
    repair_rows(logits)
    candidates = torch.stack([(tokens[:, 1:] + j) % VOCAB for j in range(K)], -1)
    q = torch.softmax(torch.randn(N, WIDTH - 1, K, generator=own), -1)  # rank 0's alone counts
    info = sampling(sampled)
    found = decide(tokens, logits, info, candidates, q, torch.zeros(N, WIDTH), None)
    return Agreement(group).decision(found, tokens, info.is_all_greedy) if agree else found


def same(a: Decision, b: Decision) -> bool:
    return all(map(torch.equal, (a.accepted, a.bonus, a.out_tokens), (b.accepted, b.bonus, b.out_tokens)))


@pytest.mark.parametrize("spoil", [False, True], ids=["", "NaN on one rank"])
@pytest.mark.parametrize("sampled", [False, True], ids=["greedy", "sampled"])
@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_all_ranks_commit_what_rank_0_commits(size, sampled, spoil):
    group, parted = Group(size), False
    for seed in range(3):
        found = group.run(partial(decided, group, seed=seed, sampled=sampled, agree=True, spoil=spoil))
        assert all(same(found[0], other) for other in found[1:])
        alone = group.run(partial(decided, group, seed=seed, sampled=sampled, agree=False, spoil=spoil))
        parted |= any(not same(alone[0], other) for other in alone[1:])
    assert parted, "the ranks would have agreed anyway: the test shows nothing"


def test_a_round_costs_one_broadcast_of_two_numbers_a_request():
    group = Group(2)
    group.run(partial(decided, group, seed=0, sampled=False, agree=True))
    assert dict(group.calls) == {"broadcast": 1} and group.bytes["broadcast"] == 2 * N * 8


def test_where_sglang_sends_nothing_the_decision_stays_as_it_is():
    sync = SimpleNamespace(enabled=lambda site: False)
    tokens, logits = batch(0)
    found = decide(tokens, logits, None, tokens[:, 1:, None], torch.ones(N, WIDTH - 1, 1), tokens, None)
    assert Agreement(sync).decision(found, tokens, True) is found
