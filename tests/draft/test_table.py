"""The serving form of the transition table, in float32, against the reference's direct form: every row of each."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from sglang_dspine.draft.table import TransitionTable
from sglang_dspine.kernels.table_walk.naive import predecessors
from sglang_dspine.kernels.table_walk.parts import Draw, Proposal
from sglang_dspine.model.bridge import Bridge
from sglang_dspine.model.weights import load_bridge
from sglang_dspine.reference import Bridge as ReferenceBridge
from sglang_dspine.reference import transition_table_direct
from sglang_dspine.reference.table import Refiner, predecessor_ids

from ..support.checkpoints import TINY, random_tensors

CONFIG = replace(TINY, top_k=8)


def made(seed: int, dtype: torch.dtype = torch.float32):
    """The serving table and the reference's refiner on the same weights and the same random head."""
    weights = random_tensors(CONFIG, seed=seed, dtype=dtype)
    head = torch.randn(CONFIG.vocab_size, CONFIG.hidden_size, generator=torch.Generator().manual_seed(seed)).to(dtype)
    shape = (CONFIG.num_layers, CONFIG.hidden_size, CONFIG.transfer_rank, CONFIG.message_size, CONFIG.vocab_size)
    bridge = Bridge(*shape).to(dtype)
    list(load_bridge(bridge, weights.items(), CONFIG))
    rows = SimpleNamespace(rows=lambda ids: head[ids], stored=None, ranks=None)
    table = TransitionTable(bridge, weights["norm.weight"], CONFIG.rms_norm_eps, rows)
    reference = ReferenceBridge.from_weights(weights, CONFIG.num_layers)
    return table, Refiner(reference, weights["norm.weight"], head, CONFIG.rms_norm_eps), bridge


def inputs(seed: int, dtype: torch.dtype = torch.float32):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 15, CONFIG.hidden_size, generator=random).to(dtype)
    candidates = torch.rand(3, 15, CONFIG.vocab_size, generator=random).argsort(-1)[..., : CONFIG.top_k]
    return x, candidates, torch.randint(CONFIG.vocab_size, (3,), generator=random)


def receive_of(bridge: Bridge, x: torch.Tensor) -> torch.Tensor:
    """G_recv f + b of rows: what the bridge hands over beside its writes."""
    rows, anchor = torch.cat([x[:, :1], x], 1), torch.zeros(len(x), dtype=torch.int64)
    return bridge.inject(CONFIG.num_layers - 1, rows, None, anchor).receive


def scores_of(table, x, receive, candidates, anchor):
    """The table of a greedy batch; x stands behind an anchor's row that nobody reads."""
    n, rows, k = candidates.shape
    draw = Draw(torch.ones(n), torch.ones(n, dtype=torch.bool), torch.zeros(n, rows))
    proposal = Proposal(torch.zeros(n, rows, dtype=torch.int64), candidates.clone(), torch.zeros(n, rows, k))
    scores = table(torch.cat([x[:, :1], x], 1), receive, candidates, anchor, draw, proposal)
    first = candidates[:, 0].gather(-1, scores[:, 0, 0].argmax(-1, keepdim=True))
    assert torch.equal(proposal.tokens[:, :1], first)
    return scores


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_every_row_of_the_table_is_the_references(seed, scale):
    table, refiner, bridge = made(seed)
    x, candidates, anchor = inputs(seed)
    x = scale * x
    scores = scores_of(table, x, receive_of(bridge, x), candidates, anchor)
    expected = transition_table_direct(x, candidates, anchor, refiner)
    assert scores.shape == (3, 15, CONFIG.top_k, CONFIG.top_k) and scores.dtype == torch.float32
    error = (scores - expected).abs().amax((2, 3)) / expected.abs().amax((2, 3))
    assert error.max() < 2e-5, f"row {int(error.argmax())} of 45 is off by {error.max():.1e}"


def test_bfloat16_inputs_stay_within_their_rounding():
    table, refiner, bridge = made(0, torch.bfloat16)
    x, candidates, anchor = inputs(0, torch.bfloat16)
    scores = scores_of(table, x, receive_of(bridge, x), candidates, anchor)
    wide = replace(refiner.bridge, **{k: _wide(v) for k, v in vars(refiner.bridge).items()})
    exact = transition_table_direct(
        x.double(), candidates, anchor, Refiner(wide, refiner.norm.double(), refiner.head.double(), refiner.eps)
    )
    error = (scores - exact).abs().amax((2, 3)) / exact.abs().amax((2, 3))
    assert error.max() < 3 * 2**-8


def _wide(value):
    return tuple(t.double() for t in value) if isinstance(value, tuple) else value.double()


def test_predecessors_are_the_row_befores_candidates_and_the_anchor_first():
    _, candidates, anchor = inputs(1)
    assert torch.equal(predecessors(anchor, candidates), predecessor_ids(candidates, anchor))


def test_all_predecessors_of_the_first_row_are_the_anchor():
    table, _, bridge = made(2)
    x, candidates, anchor = inputs(2)
    scores = scores_of(table, x, receive_of(bridge, x), candidates, anchor)
    assert torch.equal(scores[:, 0], scores[:, 0, :1].expand_as(scores[:, 0]))


def test_a_state_that_is_not_finite_leaves_finite_scores_and_the_other_rows_as_they_are():
    table, _, bridge = made(3)
    x, candidates, anchor = inputs(3)
    good = scores_of(table, x, receive_of(bridge, x), candidates, anchor)
    x[1, 4], x[2, 0] = float("nan"), float("inf")
    scores = scores_of(table, x, receive_of(bridge, x), candidates, anchor)
    assert scores.isfinite().all()
    kept = torch.ones(3, 15, dtype=torch.bool)
    kept[1, 4] = kept[2, 0] = False
    torch.testing.assert_close(scores[kept], good[kept], rtol=1e-5, atol=1e-5)
