"""The plain walk is the reference's, greedy and sampled, and q is exactly what each token was drawn from."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_dspine.kernels.table_walk.naive import walk_naive as walk
from sglang_dspine.reference import sampled_walk

few = settings(max_examples=20, deadline=None, derandomize=True)
ROWS, K = 15, 16


def table(seed: int, n: int = 5, rows: int = ROWS, k: int = K):
    """candidates [N, R, K] and scores [N, R, K, K], the first row's predecessors all alike."""
    random = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(n, rows, k, k, generator=random)
    scores[:, 0] = scores[:, 0, :1]
    candidates = torch.rand(n, rows, 300, generator=random).argsort(-1)[..., :k]
    return candidates, scores


@few
@given(seed=st.integers(0, 999), temperature=st.sampled_from([0.05, 0.7, 1.0, 2.5]))
def test_tokens_and_q_are_the_references(seed, temperature):
    candidates, scores = table(seed)
    n = len(scores)
    heat, greedy = torch.full((n,), temperature), torch.tensor([True, False, True, False, False])
    uniforms = torch.rand(n, ROWS, generator=torch.Generator().manual_seed(seed))
    tokens, q = walk(candidates, scores, heat, greedy, uniforms)
    expected = sampled_walk(scores, candidates, torch.where(greedy, 0.0, heat), uniforms)
    assert torch.equal(tokens, expected.tokens)
    torch.testing.assert_close(q.double(), expected.q, rtol=1e-4, atol=1e-6)


@few
@given(seed=st.integers(0, 999))
def test_a_greedy_requests_q_is_the_point_mass_at_its_token(seed):
    candidates, scores = table(seed)
    n = len(scores)
    tokens, q = walk(candidates, scores, torch.ones(n), torch.ones(n, dtype=torch.bool), torch.rand(n, ROWS))
    assert torch.equal((q * candidates).sum(-1).long(), tokens)
    assert torch.equal(q.sum(-1), torch.ones(n, ROWS)) and set(q.unique().tolist()) == {0.0, 1.0}


def test_equal_scores_go_to_the_first_candidate():
    candidates, scores = table(0)
    greedy = torch.ones(5, dtype=torch.bool)
    tokens, _ = walk(candidates, torch.zeros_like(scores), torch.ones(5), greedy, torch.rand(5, ROWS))
    assert torch.equal(tokens, candidates[..., 0])


@pytest.mark.report(12)
@pytest.mark.parametrize("row", range(ROWS))
def test_every_row_decides_exactly_one_token_and_follows_the_one_before(row):
    """Changing what one row prefers changes that row's token, no earlier one, and later ones only through it."""
    candidates, scores = table(1, n=1)
    greedy = torch.ones(1, dtype=torch.bool)
    tokens, _ = walk(candidates, scores, torch.ones(1), greedy, torch.zeros(1, ROWS))
    other = (candidates[0, row] != tokens[0, row]).nonzero()[0, 0]
    changed = scores.clone()
    changed[:, row, :, other] = 100.0
    again, _ = walk(candidates, changed, torch.ones(1), greedy, torch.zeros(1, ROWS))
    assert tokens.shape == (1, ROWS) == (1, 15)
    assert torch.equal(again[0, :row], tokens[0, :row]) and again[0, row] == candidates[0, row, other]
    if row + 1 < ROWS:
        follows = scores[0, row + 1, other].argmax()
        assert again[0, row + 1] == candidates[0, row + 1, follows]


def test_the_share_of_uniforms_that_draw_a_candidate_is_its_q():
    """A grid over both rows' uniforms: the law of the walk, not a sample of it."""
    candidates, scores = table(2, n=1, rows=2, k=3)
    steps = 120
    grid = (torch.arange(steps) + 0.5) / steps
    uniforms = torch.tensor(list(itertools.product(grid.tolist(), repeat=2)))
    n = len(uniforms)
    heat = torch.full((n,), 0.8)
    tokens, q = walk(
        candidates.expand(n, -1, -1), scores.expand(n, -1, -1, -1), heat, torch.zeros(n, dtype=torch.bool), uniforms
    )
    for path in itertools.product(range(3), repeat=2):
        ids = torch.tensor([candidates[0, row, place] for row, place in enumerate(path)])
        drawn = (tokens == ids).all(-1)
        law = q[drawn][0] if drawn.any() else None
        share = drawn.float().mean()
        expected = 0.0 if law is None else law[0, path[0]] * law[1, path[1]]
        assert abs(share - expected) < 3 / steps


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-24])
def test_a_candidate_of_probability_zero_is_never_drawn(uniform):
    candidates, scores = table(3, n=2)
    scores[..., 0] = scores[..., -1] = -1e4
    sampled = torch.zeros(2, dtype=torch.bool)
    tokens, q = walk(candidates, scores, torch.ones(2), sampled, torch.full((2, ROWS), uniform))
    at = (candidates == tokens[..., None]).nonzero()[:, -1]
    assert at.min() > 0 and at.max() < K - 1
    assert (q.gather(-1, (candidates == tokens[..., None]).long().argmax(-1, keepdim=True)) > 0).all()
