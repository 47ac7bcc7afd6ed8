"""Accept rules. Rejection sampling is integrated exactly on a small vocabulary, not sampled."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sglang_dspine.reference import greedy_accept, rejection_accept, sampled_walk
from sglang_dspine.reference.accept import residual

from .cases import few

V, K, R = 4, 3, 2  # vocabulary, candidates, proposals
W = R + 1


@few
@given(seed=st.integers(0, 999), width=st.integers(2, 16))
def test_greedy_accept_keeps_the_common_prefix_and_adds_the_targets_token(seed, width):
    generator = torch.Generator().manual_seed(seed)
    proposals = torch.randint(2, (20, width - 1), generator=generator)
    target = torch.randint(2, (20, width), generator=generator)
    target[0, :-1], target[1, 0] = proposals[0], 1 - proposals[1, 0]  # all stand; none stands
    accepted = greedy_accept(proposals, target)
    for block in range(20):
        agree = [*(proposals[block] == target[block, :-1]).tolist(), False]
        expected = target[block, : agree.index(False) + 1].tolist()
        assert accepted.lengths[block] == len(expected)
        assert accepted.tokens[block].tolist() == expected + [-1] * (width - len(expected))
    assert accepted.lengths[0] == width and accepted.lengths[1] == 1


class Target:
    """A random language: the law of the next token after each prefix of up to R tokens."""

    def __init__(self, generator, top_k=None):
        self.after = {}
        for length in range(W):
            for prefix in itertools.product(range(V), repeat=length):
                law = torch.rand(V, generator=generator, dtype=torch.float64) ** 2
                if top_k:
                    law[law.argsort()[:-top_k]] = 0
                self.after[prefix] = law / law.sum()

    def joint(self, tokens):
        return self.continuation((), tokens)

    def continuation(self, prefix, tokens):
        probability = 1.0
        for token in tokens:
            probability *= float(self.after[prefix][token])
            prefix = (*prefix, token)
        return probability


class Draft:
    """A random table and its candidates; `law` lists every walk with its probability."""

    def __init__(self, generator, temperature):
        self.scores = 2 * torch.randn(1, R, K, K, generator=generator)
        self.candidates = torch.rand(1, R, V, generator=generator).argsort(-1)[..., :K]
        self.temperature = temperature

    def walks(self):
        for choices in itertools.product(range(K), repeat=R):
            place, probability, q = 0, 1.0, []
            for row, choice in enumerate(choices):
                q.append((self.scores[0, row, place].double() / self.temperature).softmax(-1))
                probability *= float(q[-1][choice])
                place = choice
            tokens = self.candidates[0].gather(-1, torch.tensor(choices)[:, None]).T
            yield tokens, torch.stack(q)[None], probability


def cells(breaks):
    """[0, 1) cut at the given points: a list of (low, high)."""
    edges = sorted({0.0, 1.0, *(min(max(b, 0.0), 1.0) for b in breaks)})
    return [(low, high) for low, high in itertools.pairwise(edges) if high - low > 1e-14]


def outcomes(proposals, candidates, q, p):
    """Law of what `rejection_accept` emits for one proposal, integrated over its uniforms.

    The uniforms are cut where the rule must change its mind; each cell is probed at both ends, so that a
    rule that changes its mind elsewhere is caught.
    """
    dense = torch.zeros(R, V, dtype=torch.float64).scatter(-1, candidates[0], q[0])
    ratio = [float(p[i, t] / dense[i, t]) for i, t in enumerate(proposals[0])]
    laws = [*(residual(p[i], dense[i]) for i in range(R)), p[R]]
    axes = [*(cells([r]) for r in ratio), cells(torch.cat([law.cumsum(0) for law in laws]).tolist())]
    boxes = list(itertools.product(*axes))
    inward = 1e-15
    ends = [[(low + inward, high - inward)[end] for low, high in box] for box in boxes for end in (0, 1)]
    n = len(ends)
    found = rejection_accept(
        proposals.expand(n, -1),
        candidates.expand(n, -1, -1),
        q.expand(n, -1, -1),
        p.expand(n, -1, -1),
        torch.tensor(ends, dtype=torch.float64),
    )
    law: dict[tuple, float] = {}
    for index, box in enumerate(boxes):
        first, last = found.tokens[2 * index], found.tokens[2 * index + 1]
        assert torch.equal(first, last)
        tokens = tuple(first[: found.lengths[2 * index]].tolist())
        volume = 1.0
        for low, high in box:
            volume *= high - low
        law[tokens] = law.get(tokens, 0.0) + volume
    return law


def emitted_joint(target, draft, claimed=lambda q: q):
    """Law of the first W tokens: one round, then the target alone. `claimed`: the q the verifier is told."""
    joint = dict.fromkeys(itertools.product(range(V), repeat=W), 0.0)
    for proposals, q, probability in draft.walks():
        path = proposals[0].tolist()
        p = torch.stack([target.after[tuple(path[:i])] for i in range(W)])
        for tokens, share in outcomes(proposals, draft.candidates, claimed(q), p).items():
            for rest in itertools.product(range(V), repeat=W - len(tokens)):
                tail = target.continuation(tokens, rest)
                joint[tokens + rest] += probability * share * tail
    return joint


def distance(target, joint):
    return max(abs(probability - target.joint(tokens)) for tokens, probability in joint.items())


@few
@given(seed=st.integers(0, 999), temperature=st.sampled_from([0.3, 1.0, 5.0]), top_k=st.sampled_from([None, 2]))
def test_rejection_sampling_emits_the_targets_distribution(seed, temperature, top_k):
    generator = torch.Generator().manual_seed(seed)
    target, draft = Target(generator, top_k), Draft(generator, temperature)
    joint = emitted_joint(target, draft)
    assert sum(joint.values()) == pytest.approx(1, abs=1e-12)
    assert distance(target, joint) < 1e-12


def of_another_temperature(q):
    q = q ** (1 / 1.1)
    return q / q.sum(-1, keepdim=True)


def with_two_candidates_swapped(q):
    return q[..., [1, 0, *range(2, K)]]


def unconditional(q):
    """Row 2 told as if row 1 had chosen otherwise: a q that forgets its predecessor."""
    return torch.cat((q[:, :1], q[:, :1].roll(1, -1)), dim=1)


@pytest.mark.parametrize("wrong", [of_another_temperature, with_two_candidates_swapped, unconditional])
def test_a_wrong_q_breaks_the_distribution(wrong):
    generator = torch.Generator().manual_seed(1)
    target, draft = Target(generator), Draft(generator, 1.0)
    assert distance(target, emitted_joint(target, draft)) < 1e-12
    assert distance(target, emitted_joint(target, draft, wrong)) > 1e-3


def test_the_enumerated_walks_are_the_sampled_walks():
    """The enumeration above stands for the walk: same tokens, same q."""
    draft = Draft(torch.Generator().manual_seed(2), 0.7)
    n = 2000
    uniforms = torch.rand(n, R, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    walk = sampled_walk(
        draft.scores.expand(n, -1, -1, -1),
        draft.candidates.expand(n, -1, -1),
        torch.full((n,), 0.7, dtype=torch.float64),
        uniforms,
    )
    known = {tuple(tokens[0].tolist()): q[0] for tokens, q, _ in draft.walks()}
    assert len(known) == K**R
    expected = torch.stack([known[tuple(tokens)] for tokens in walk.tokens.tolist()])
    torch.testing.assert_close(walk.q, expected, rtol=1e-12, atol=0)


@few
@given(seed=st.integers(0, 999))
def test_one_hot_laws_make_rejection_sampling_the_greedy_rule(seed):
    generator = torch.Generator().manual_seed(seed)
    candidates = torch.rand(30, 5, V, generator=generator).argsort(-1)[..., :K]
    proposals, q = candidates[..., 0], torch.zeros(30, 5, K, dtype=torch.float64)
    q[..., 0] = 1
    target = torch.randint(V, (30, 6), generator=generator)
    target[:10, :-1] = proposals[:10]
    p = torch.nn.functional.one_hot(target, V).double()
    uniforms = torch.rand(30, 6, generator=generator, dtype=torch.float64)
    sampled, greedy = (
        rejection_accept(proposals, candidates, q, p, uniforms),
        greedy_accept(proposals, target),
    )
    assert torch.equal(sampled.tokens, greedy.tokens)
    assert torch.equal(sampled.lengths, greedy.lengths)


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2.0**-53])
def test_a_proposal_the_target_excludes_never_stands_and_an_equal_law_always_does(uniform):
    candidates = torch.tensor([[[0, 1, 2]]])
    q = torch.tensor([[[0.5, 0.25, 0.25]]], dtype=torch.float64)
    uniforms = torch.full((1, 2), uniform, dtype=torch.float64)
    excluded = torch.tensor([[[0.0, 0.5, 0.25, 0.25], [0.25] * 4]])
    found = rejection_accept(torch.tensor([[0]]), candidates, q, excluded, uniforms)
    assert found.lengths.tolist() == [1] and found.tokens[0, 0] in (1, 3)  # where p exceeds q
    equal = torch.tensor([[[0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 0.0, 1.0]]])
    found = rejection_accept(torch.tensor([[0]]), candidates, q, equal, uniforms)
    assert found.tokens.tolist() == [[0, 3]]  # the bonus comes from the row after the last proposal


def test_the_residual_is_a_law_without_the_drafts_share_even_where_nothing_remains():
    p = torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], dtype=torch.float64)
    q = torch.tensor([[0.9, 0.1, 0.0], [0.5, 0.3, 0.2]], dtype=torch.float64)
    expected = torch.tensor([[0.0, 0.5, 0.5], [0.5, 0.3, 0.2]], dtype=torch.float64)
    torch.testing.assert_close(residual(p, q), expected, rtol=1e-15, atol=1e-15)
