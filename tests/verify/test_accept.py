"""The accept rules are the reference's; rejection sampling's law is integrated exactly, not sampled."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_dspine.reference import Accepted, greedy_accept, rejection_accept
from sglang_dspine.verify.accept import accept_greedy, accept_sampled, draw
from sglang_dspine.verify.decide import commit_row

from ..reference import test_accept as exact

few = settings(max_examples=20, deadline=None, derandomize=True)


def with_anchor(proposals: torch.Tensor) -> torch.Tensor:
    """[N, w-1] -> the block [N, w]; nobody may read the anchor."""
    return torch.cat([torch.full_like(proposals[:, :1], 7), proposals], 1)


def emitted(block: torch.Tensor, accepted: torch.Tensor, bonus: torch.Tensor) -> Accepted:
    """The product's answer in the reference's form: -1 past the accepted length."""
    tokens = commit_row(block, accepted, bonus)
    past = torch.arange(block.shape[1]) > accepted[:, None]
    return Accepted(tokens.masked_fill(past, -1), accepted + 1)


def product_rejection(proposals, candidates, q, p, uniforms) -> Accepted:
    """`accept_sampled` behind the reference's signature."""
    block = with_anchor(proposals)
    return emitted(block, *accept_sampled(block, p, candidates, q, uniforms[:, :-1], uniforms[:, -1]))


@few
@given(seed=st.integers(0, 999), width=st.integers(2, 16))
def test_greedy_accept_is_the_references(seed, width):
    random = torch.Generator().manual_seed(seed)
    proposals = torch.randint(2, (30, width - 1), generator=random)
    target = torch.randint(2, (30, width), generator=random)
    target[0, :-1], target[1, 0] = proposals[0], 1 - proposals[1, 0]  # all stand; none stands
    block = with_anchor(proposals)
    found, expected = emitted(block, *accept_greedy(block, target)), greedy_accept(proposals, target)
    assert torch.equal(found.tokens, expected.tokens) and torch.equal(found.lengths, expected.lengths)
    assert found.lengths[:2].tolist() == [width, 1]


@few
@given(seed=st.integers(0, 999), width=st.integers(2, 16), sharp=st.sampled_from([0.3, 1.0, 4.0]))
def test_rejection_sampling_is_the_references_draw_for_draw(seed, width, sharp):
    random = torch.Generator().manual_seed(seed)
    n, vocab, k = 40, 23, 5
    candidates = torch.rand(n, width - 1, vocab, generator=random).argsort(-1)[..., :k]
    q = (sharp * torch.randn(n, width - 1, k, generator=random)).double().softmax(-1)
    p = (sharp * torch.randn(n, width, vocab, generator=random)).double().softmax(-1)
    p[::2, :-1] = torch.zeros_like(p[::2, :-1]).scatter(-1, candidates[::2], q[::2])  # every other draft is perfect
    drawn = torch.multinomial(q.view(-1, k), 1, generator=random).view(n, -1, 1)
    proposals = candidates.gather(-1, drawn)[..., 0]
    uniforms = torch.rand(n, width, generator=random, dtype=torch.float64)
    found = product_rejection(proposals, candidates, q, p, uniforms)
    expected = rejection_accept(proposals, candidates, q, p, uniforms)
    assert torch.equal(found.lengths, expected.lengths) and torch.equal(found.tokens, expected.tokens)
    assert (found.lengths[::2] == width).all()


@pytest.fixture
def integrated(monkeypatch):
    """The reference's exact integration over all uniforms, of the product's rule."""
    monkeypatch.setattr(exact, "rejection_accept", product_rejection)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("top_k", [None, 2])
def test_the_emitted_law_is_the_targets_whatever_q_is(integrated, temperature, top_k):
    random = torch.Generator().manual_seed(int(10 * temperature))
    target, draft = exact.Target(random, top_k), exact.Draft(random, temperature)
    joint = exact.emitted_joint(target, draft)
    assert sum(joint.values()) == pytest.approx(1, abs=1e-12)
    assert exact.distance(target, joint) < 1e-12


@pytest.mark.parametrize(
    "wrong", [exact.of_another_temperature, exact.with_two_candidates_swapped, exact.unconditional]
)
def test_a_wrong_q_would_break_the_law(integrated, wrong):
    random = torch.Generator().manual_seed(1)
    target, draft = exact.Target(random), exact.Draft(random, 1.0)
    assert exact.distance(target, exact.emitted_joint(target, draft, wrong)) > 1e-3


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-24])
def test_a_token_the_target_excludes_is_never_emitted(uniform):
    block = torch.tensor([[9, 0], [9, 0]])
    candidates, q = torch.tensor([[[0, 1, 2]]]).expand(2, -1, -1), torch.tensor([[[0.5, 0.25, 0.25]]]).expand(2, -1, -1)
    probs = torch.tensor([[[0.0, 0.5, 0.5, 0.0], [0.25] * 4], [[0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 0.0, 1.0]]])
    u = torch.full((2, 1), uniform)
    accepted, bonus = accept_sampled(block, probs, candidates, q, u, u[:, 0])
    assert accepted.tolist() == [0, 1]
    assert bonus[0] in (1, 2) and bonus[1] == 3  # the bonus of a whole run comes from the row behind it


def test_a_refused_row_equal_to_q_to_the_last_bit_still_yields_a_token_of_the_target():
    """Rounding may refuse where p = q; then nothing is left over, and the last vocabulary id must not come out."""
    block, candidates = torch.tensor([[9, 1]]), torch.tensor([[[0, 1, 2]]])
    q = torch.tensor([[[0.25, 0.5, 0.25]]])
    probs = torch.zeros(1, 2, 50).scatter(-1, candidates.expand(-1, 2, -1), q.expand(-1, 2, -1))
    accepted, bonus = accept_sampled(block, probs, candidates, q, torch.ones(1, 1), torch.tensor([0.99]))
    assert accepted.tolist() == [0] and bonus.item() in (0, 1, 2)


def test_the_target_rows_are_left_as_they_are():
    probs = torch.rand(2, 3, 6).softmax(-1)
    kept = probs.clone()
    candidates = torch.tensor([[[0, 1]] * 2] * 2)
    q = torch.full((2, 2, 2), 0.5)
    accept_sampled(torch.zeros(2, 3, dtype=torch.int64), probs, candidates, q, torch.ones(2, 2) * 0.99, torch.rand(2))
    assert torch.equal(probs, kept)


@pytest.mark.parametrize("uniform", [0.0, 0.3, 0.999999, 1 - 2**-24])
def test_a_draw_never_lands_on_weight_zero(uniform):
    weights = torch.tensor([[0.0, 0.2, 0.0, 0.7, 0.0], [0.0, 0.0, 0.0, 0.0, 1e-30], [1e-30, 0.0, 0.0, 0.0, 0.0]])
    drawn = draw(weights, torch.full((3,), uniform))
    assert (weights.gather(1, drawn[:, None]) > 0).all()
