"""Speculative sampling on walkers: the target's law when q is told right, the predicted other law when it is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sglang_dspine.exactness.filters import softmax
from sglang_dspine.exactness.power import PLANTS, swapped
from sglang_dspine.exactness.rejection import Automaton, emit, emitted_law, speculate
from sglang_dspine.reference.accept import rejection_accept

laws = arrays(np.float64, (3, 5), elements=st.floats(-4, 4)).map(softmax)


@settings(max_examples=50, deadline=None)
@given(laws, laws)
def test_the_right_q_leaves_the_law_untouched(p, q):
    np.testing.assert_allclose(emitted_law(p, q, q), p, atol=1e-12)


@settings(max_examples=50, deadline=None)
@given(laws, laws, laws)
def test_a_wrong_q_still_emits_a_law(p, drawn, claimed):
    emitted = emitted_law(p, drawn, claimed)
    assert (emitted >= 0).all()
    residual = np.maximum(p - claimed, 0).sum(axis=1) > 1e-12
    np.testing.assert_allclose(emitted.sum(axis=1)[residual], 1.0)


@pytest.mark.parametrize("plant", [None, *PLANTS.values()])
def test_simulated_tokens_follow_the_emitted_law(plant):
    rng = np.random.default_rng(0)
    p, q = softmax(rng.normal(size=(1, 6))), softmax(rng.normal(size=(1, 6)))
    claimed = q if plant is None else plant(q)
    n = 400_000
    wide = [np.broadcast_to(x, (n, 6)) for x in (p, q, claimed)]
    tokens, _ = emit(*wide, rng.random((n, 3)))
    expected = emitted_law(p, q, claimed)[0]
    observed = np.bincount(tokens, minlength=6) / n
    assert np.abs(observed - expected).max() < 5 * np.sqrt(0.25 / n)
    assert (np.abs(expected - p[0]).max() > 0.006) == (plant is not None)


def test_a_row_decides_as_the_reference_acceptor_does():
    """Same p, q and uniforms, one row at a time: accepted or not, and the token emitted."""
    rng = np.random.default_rng(1)
    n, v = 500, 7
    p, q = softmax(rng.normal(size=(n, v))), softmax(2 * rng.normal(size=(n, v)))
    claimed = swapped(q)
    u = rng.random((n, 3))
    proposal = np.minimum((u[:, :1] >= np.cumsum(q, axis=1)).sum(axis=1), v - 1)
    tokens, accepted = emit(p, q, claimed, u)
    reference = rejection_accept(
        torch.tensor(proposal)[:, None],
        torch.arange(v).expand(n, 1, v),
        torch.tensor(claimed)[:, None],
        torch.tensor(np.stack([p, p], axis=1)),
        torch.tensor(u[:, 1:]),
    )
    np.testing.assert_array_equal(accepted, reference.lengths.numpy() == 2)
    np.testing.assert_array_equal(tokens, reference.tokens[:, 0].numpy())


def test_blocks_end_after_their_proposals_and_the_bonus_comes_from_the_target_alone():
    """q = p accepts everything, so a block of w proposals yields w + 1 tokens, the last one not proposed."""
    law = np.array([[0.5, 0.5], [0.5, 0.5]])
    chain = Automaton(law, np.array([[0, 1], [0, 1]]), np.array([0]))
    rng = np.random.default_rng(0)
    *_, accepted = speculate(chain, law, law, requests=100, length=40, proposals=3, rng=rng)
    assert accepted == 4.0
    never = np.array([[1.0, 0.0]] * 2)  # draws token 0 always, claims to: the bonus alone brings token 1 freely
    columns, *_ = speculate(chain, never, never, requests=20_000, length=8, proposals=3, rng=rng)
    np.testing.assert_allclose(columns.mean(axis=0), 0.5, atol=0.02)


def test_a_walk_ends_where_the_automaton_does():
    law, child = np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([[1, -1], [-1, -1]])
    chain = Automaton(law, child, np.array([0]))
    rng = np.random.default_rng(0)
    columns, states, _ = speculate(chain, law, law, requests=1000, length=3, proposals=2, rng=rng)
    assert (columns[columns[:, 0] == 1, 1:] == -1).all()
    assert (columns[:, 2] == -1).all()
    assert set(states[:, 1]) == {-1, 1}
