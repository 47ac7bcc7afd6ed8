"""Bridge, candidates, table and walk as the draft model strings them together, with the kernels and without them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import sglang_dspine.draft.table as draft_table
from sglang_dspine.draft.proposer import Proposer
from sglang_dspine.draft.table import TransitionTable
from sglang_dspine.kernels import bridge as bridge_kernels
from sglang_dspine.kernels import table_walk as table_kernels
from sglang_dspine.kernels import top_k as top_k_kernels
from sglang_dspine.kernels.head_rows.form import StoredHead
from sglang_dspine.model.bridge import Bridge
from sglang_dspine.model.weights import load_bridge
from tests.support.checkpoints import TINY, random_tensors


class Head:
    """The target's head, dense and padded; `TargetHead` needs SGLang."""

    def __init__(self, weight: torch.Tensor, vocab: int) -> None:
        self.weight, self.local_vocab, self.stored = weight, vocab, StoredHead(weight, weight.shape[1])
        self.ranks = None

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        return self.weight[ids]

    def top_k(self, hidden: torch.Tensor, k: int) -> torch.Tensor:
        return top_k_kernels.top_k(hidden @ self.weight.T, self.local_vocab, k)[1]


def proposal(width: int):
    """tokens, candidates, q and scores of two requests, one greedy and one sampled, after the bridge of every layer."""
    weights = random_tensors(TINY, seed=3, dtype=torch.float32)
    bridge = Bridge(TINY.num_layers, TINY.hidden_size, TINY.transfer_rank, TINY.message_size, TINY.vocab_size)
    list(load_bridge(bridge, weights.items(), TINY))
    g = torch.Generator().manual_seed(0)
    head = Head(torch.randn(TINY.vocab_size + 7, TINY.hidden_size, generator=g), TINY.vocab_size)
    proposer = Proposer(TINY, TransitionTable(bridge, weights["norm.weight"], TINY.rms_norm_eps, head), 3)
    proposer.stage(
        2, SimpleNamespace(is_all_greedy=False, top_ks=torch.tensor([1, 50]), temperatures=torch.tensor([[1.0], [0.6]]))
    )
    h = torch.randn(2, width, TINY.hidden_size, generator=g)
    ids = torch.randint(TINY.vocab_size, (2, width), generator=g)
    for layer in range(TINY.num_layers):
        injected = bridge.inject(layer, h, torch.randn(h.shape, generator=g), ids[:, 0])
        h = injected.after
    torch.manual_seed(9)  # the uniforms
    proposer(h[:, 1:], injected.before, injected.receive, ids[:, 0])
    rows = slice(0, width - 1)
    return (proposer.tokens[:2, rows], proposer.candidates[:2, rows], proposer.q[:2, rows], proposer.scores), proposer


@pytest.mark.parametrize("width", [3, 5])
def test_kernels_propose_what_the_plain_forms_propose(monkeypatch, width):
    plain, _ = proposal(width)
    for module in (bridge_kernels, top_k_kernels, table_kernels, draft_table):
        monkeypatch.setattr(module, "use_kernels", lambda tensor: True)
    found, proposer = proposal(width)
    assert proposer.table.prepared is not None, "the kernels did not run"
    assert torch.equal(found[0], plain[0]) and torch.equal(found[1], plain[1])
    torch.testing.assert_close(found[2], plain[2], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[3], plain[3], rtol=1e-4, atol=1e-4)
