"""A drafter over several ranks proposes what one rank proposes, and all the same, although their floats differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch

# Imported before `get_parallel` is replaced, as in test_head.py
from sglang.srt import runtime_context
from sglang.srt.distributed import communication_op
from sglang.srt.layers import logits_processor  # noqa: F401
from sglang.srt.speculative import dflash_utils  # noqa: F401

from sglang_dspine.draft import head as head_module
from sglang_dspine.draft.head import TargetHead
from sglang_dspine.draft.proposer import Proposer
from sglang_dspine.draft.ranks import best_of_ranks, served_ranks
from sglang_dspine.draft.table import TransitionTable
from sglang_dspine.kernels.head_share.naive import Share
from sglang_dspine.model.bridge import Bridge
from sglang_dspine.model.weights import load_bridge

from ..support.checkpoints import TINY, random_tensors
from ..support.ranks import Group, shard

SIZES = [2, 3, 4, 8]
CONFIG = replace(TINY, top_k=8)
N, ROWS = 3, CONFIG.num_proposals


@pytest.fixture(autouse=True)
def one_rank(monkeypatch):
    """Of SGLang; the ranks of a test are told to the head."""
    monkeypatch.setattr(runtime_context, "get_parallel", lambda: SimpleNamespace(tp_size=1))


@dataclass
class Proposed:
    tokens: torch.Tensor
    candidates: torch.Tensor
    q: torch.Tensor
    scores: torch.Tensor


class Case:
    """Weights and one batch, greedy and sampled requests in it."""

    def __init__(self, seed: int = 0, dtype: torch.dtype = torch.float32) -> None:
        c, g = CONFIG, torch.Generator().manual_seed(seed)
        self.weights = random_tensors(c, seed=seed, dtype=dtype)
        self.lm_head = torch.randn(c.vocab_size, c.hidden_size, generator=g).to(dtype)
        self.bridge = Bridge(c.num_layers, c.hidden_size, c.transfer_rank, c.message_size, c.vocab_size).to(dtype)
        list(load_bridge(self.bridge, self.weights.items(), c))
        self.stream = torch.randn(N, ROWS + 1, c.hidden_size, generator=g).to(dtype)
        self.anchor = torch.randint(c.vocab_size, (N,), generator=g)

    def propose(self, layer: SimpleNamespace, group: Group | None, noise: float = 0.0, agree: bool = True) -> Proposed:
        """The proposal behind the last bridge; `noise` is this rank's own, relative."""
        head = TargetHead(layer, CONFIG.vocab_size)
        table = TransitionTable(self.bridge, self.weights["norm.weight"], CONFIG.rms_norm_eps, head)
        told = partial(group.sync, None) if group and agree else None
        proposer = Proposer(CONFIG, table, N + 1, told)
        info = SimpleNamespace(
            is_all_greedy=False, top_ks=torch.tensor([1, 50, 1]), temperatures=torch.tensor([[1.0], [0.7], [1.0]])
        )
        proposer.stage(N, info)
        own = torch.Generator().manual_seed(7 + (group.rank if group else 0))
        stream = self.stream * (1 + noise * torch.randn(self.stream.shape, generator=own)).to(self.stream.dtype)
        injected = self.bridge.inject(CONFIG.num_layers - 1, stream, None, self.anchor)
        proposer(injected.after[:, 1:], injected.before, injected.receive, self.anchor)
        return Proposed(proposer.tokens[:N], proposer.candidates[:N], proposer.q[:N], proposer.scores)

    def over(self, size: int, **settings) -> tuple[list[Proposed], Group]:
        group = Group(size)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(head_module, "served_ranks", lambda: group.ranks)
            return group.run(lambda rank: self.propose(shard(self.lm_head, rank, size), group, **settings)), group


@pytest.fixture
def same_draws(monkeypatch):
    """Threads share PyTorch's generator, ranks do not: here every rank draws the same."""
    fixed = torch.rand(N + 1, ROWS, generator=torch.Generator().manual_seed(3))
    monkeypatch.setattr(torch.Tensor, "uniform_", lambda self: self.copy_(fixed[: len(self), : self.shape[1]]))


def alone(case: Case) -> Proposed:
    return case.propose(shard(case.lm_head, 0, 1), None)


@pytest.mark.parametrize("size", SIZES)
def test_every_rank_proposes_what_one_rank_proposes(same_draws, size):
    """The vocabulary of 67 is padded to 72 or more rows; over 8 ranks three of them own nothing but padding."""
    case = Case(size)
    expected, (found, _) = alone(case), case.over(size)
    for proposed in found:
        assert torch.equal(proposed.candidates, expected.candidates)
        assert torch.equal(proposed.tokens, expected.tokens)
        torch.testing.assert_close(proposed.scores, expected.scores, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(proposed.q, expected.q, rtol=1e-5, atol=1e-6)
    assert len({int(token) for token in expected.tokens.flatten()}) > 10, "proposals of one token would prove little"


@pytest.mark.parametrize("size", [2, 8])
def test_in_bfloat16_the_table_is_one_ranks_to_the_last_bit(same_draws, size):
    case = Case(1, torch.bfloat16)
    expected, (found, _) = alone(case), case.over(size)
    for proposed in found:
        assert torch.equal(proposed.candidates, expected.candidates)
        assert torch.equal(proposed.scores, expected.scores) and torch.equal(proposed.tokens, expected.tokens)


NOISE = 1e-2  # far above rounding, so that walks do part where nobody decides for all


@pytest.mark.parametrize("size", SIZES)
def test_ranks_whose_floats_differ_propose_alike(size):
    for seed in range(4):
        found, _ = Case(seed).over(size, noise=NOISE)
        for proposed in found[1:]:
            assert torch.equal(proposed.candidates, found[0].candidates)
            assert torch.equal(proposed.tokens, found[0].tokens)


@pytest.mark.parametrize("size", SIZES)
def test_without_rank_0s_word_they_would_not(size):
    """The noise of the test above is enough to part the walks."""
    parted = [
        any(not torch.equal(p.tokens, found[0].tokens) for p in found[1:])
        for found, _ in (Case(seed).over(size, noise=NOISE, agree=False) for seed in range(4))
    ]
    assert any(parted)


def test_a_rank_that_leaves_its_rows_out_is_seen(monkeypatch, same_draws):
    case, group = Case(2), Group(2)
    monkeypatch.setattr(head_module, "served_ranks", lambda: replace(group.ranks, total=lambda payload: payload))
    found = group.run(lambda rank: case.propose(shard(case.lm_head, rank, 2), group))
    assert not torch.allclose(found[0].scores, alone_scores(monkeypatch, case), rtol=1e-2)


def alone_scores(monkeypatch, case: Case) -> torch.Tensor:
    monkeypatch.setattr(head_module, "served_ranks", lambda: None)
    return alone(case).scores


def test_padding_that_scores_highest_on_every_rank_is_never_proposed(same_draws):
    case = Case(3)
    case.stream.abs_()
    found, _ = case.over(4)
    assert all(proposed.candidates.max() < CONFIG.vocab_size for proposed in found)


@pytest.mark.parametrize("dtype, numbers", [(torch.float32, 1), (torch.bfloat16, 3)])
def test_a_draft_forward_gathers_once_sums_once_and_broadcasts_once(dtype, numbers):
    _, group = Case(0, dtype).over(2)
    assert dict(group.calls) == {"gather": 1, "sum": 1, "broadcast": 1}
    k, m = CONFIG.top_k, CONFIG.message_size
    assert group.bytes["gather"] == N * ROWS * k * 8
    assert group.bytes["sum"] == N * ROWS * k * (m + numbers) * dtype.itemsize
    assert group.bytes["broadcast"] == N * ROWS * 8


def test_equal_values_go_to_the_lowest_id_on_whichever_rank():
    values, group = torch.tensor([[3.0, 1.0], [3.0, 3.0]]), Group(2)
    ids = torch.tensor([[4, 9], [12, 15]])
    found = group.run(lambda r: best_of_ranks(values[r : r + 1], ids[r : r + 1], 2, group.ranks))
    assert found[0].tolist() == found[1].tolist() == [[4, 12]]


def test_ids_beyond_what_a_float_holds_travel_unharmed():
    group, large = Group(2), torch.tensor([[2**24 + 1], [2**30 + 1]])
    found = group.run(lambda r: best_of_ranks(torch.tensor([[float(r)]]), large[r : r + 1], 1, group.ranks))
    assert found[0].tolist() == [[2**30 + 1]]


def test_three_sixteen_bit_numbers_carry_a_dot_exactly():
    own = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)) * 10.0 ** torch.arange(-6, 6).view(1, 3, 4)
    share, rest = Share(torch.zeros(2, 3, 4), 8, torch.bfloat16), own.clone()
    share.seen.zero_()
    for part in range(share.parts):
        share.own[..., part] = rest
        rest = rest - share.own[..., part].float()
    assert torch.equal(share.given(share.payload).own, own)


def test_the_ranks_are_sglangs_and_one_rank_has_none(monkeypatch):
    monkeypatch.setattr(communication_op, "tensor_model_parallel_all_gather", lambda t, dim: torch.cat([t, t + 1], dim))
    monkeypatch.setattr(communication_op, "tensor_model_parallel_all_reduce", lambda t: 2 * t)
    assert served_ranks() is None
    monkeypatch.setattr(runtime_context, "get_parallel", lambda: SimpleNamespace(tp_size=2))
    ranks = served_ranks()
    assert ranks.size == 2
    assert ranks.gather(torch.tensor([[1], [5]])).tolist() == [[1, 2], [5, 6]]
    assert ranks.total(torch.tensor([3])).tolist() == [6]
