"""The sampled walk draws from exactly the q it hands on."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sglang_dspine.reference import greedy_walk, sampled_walk
from sglang_dspine.reference.walk import conditional, draw

from .cases import CASES, drafter_of, few, random_inputs

BELOW_ONE = 1 - 2.0**-53


def random_scores(seed, blocks, rows, top_k, spread=1.0):
    generator = torch.Generator().manual_seed(seed)
    scores = spread * torch.randn(blocks, rows, top_k, top_k, generator=generator)
    candidates = torch.rand(blocks, rows, 40, generator=generator).argsort(-1)[..., :top_k]
    return scores, candidates, generator


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_block_of_16_gives_15_proposals_one_a_row(case, temperature):
    drafter = drafter_of(case, torch.float32)
    taps, anchor = random_inputs(case, 0, blocks=2, span=8, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    proposal = drafter.propose(taps, anchor, temperature=temperature, generator=generator)
    assert proposal.tokens.shape == (2, drafter.config.num_proposals) == (2, 15)
    assert torch.equal(proposal.tokens, proposal.candidates.take_along_dim(proposal.choices[..., None], -1)[..., 0])
    torch.testing.assert_close(proposal.q.sum(-1), torch.ones(2, 15, dtype=torch.float64), rtol=0, atol=1e-15)


@few
@given(
    seed=st.integers(0, 999),
    temperature=st.sampled_from([0.05, 0.5, 1.0, 3.0]),
    spread=st.sampled_from([1, 30, 1000]),
)
def test_q_sums_to_one_and_is_the_softmax_of_the_row_walked_into(seed, temperature, spread):
    scores, candidates, generator = random_scores(seed, 3, 6, 5, spread)
    uniforms = torch.rand(3, 6, generator=generator, dtype=torch.float64)
    walk = sampled_walk(scores, candidates, torch.full((3,), temperature), uniforms)
    assert (walk.q.sum(-1) - 1).abs().max() < 1e-15
    for block in range(3):
        place = 0
        for row in range(6):
            weight = (scores[block, row, place].double() / torch.tensor(temperature).double()).softmax(-1)
            torch.testing.assert_close(walk.q[block, row], weight, rtol=1e-12, atol=1e-300)
            place = int(walk.choices[block, row])
            assert walk.tokens[block, row] == candidates[block, row, place]
            assert walk.q[block, row, place] > 0


@few
@given(seed=st.integers(0, 999), spread=st.sampled_from([0.1, 2, 20, 400]))
def test_the_share_of_uniforms_that_draw_a_candidate_is_its_q(seed, spread):
    """By construction: where the draw steps from one candidate to the next is found by bisection on u."""
    generator = torch.Generator().manual_seed(seed)
    law = conditional(spread * torch.randn(1, 8, generator=generator), torch.ones(1))
    steps = [0.0]
    for place in range(7):
        low, high = 0.0, 1.0  # the least u that draws beyond `place`
        while (middle := (low + high) / 2) not in (low, high):
            beyond = draw(law, torch.tensor([middle], dtype=torch.float64)).item() > place
            low, high = (low, middle) if beyond else (middle, high)
        steps.append(high)
    shares = torch.tensor([*steps, 1.0], dtype=torch.float64).diff()
    torch.testing.assert_close(shares, law[0], rtol=0, atol=4e-16)


def test_drawn_frequencies_pass_a_chi_squared_test_and_another_temperature_fails_it():
    draws = 40_000
    scores, candidates, generator = random_scores(5, 1, 3, 6)
    heat = torch.full((draws,), 0.8)
    uniforms = torch.rand(draws, 3, generator=generator, dtype=torch.float64)
    walk = sampled_walk(scores.expand(draws, -1, -1, -1), candidates.expand(draws, -1, -1), heat, uniforms)

    def least_p(q):
        found = []
        for row in (1, 2):
            for previous in range(6):
                chosen = walk.choices[:, row][walk.choices[:, row - 1] == previous]
                expected = q[row, previous] * len(chosen)
                if expected.min() >= 5:
                    counts = torch.bincount(chosen, minlength=6)
                    found.append(stats.chisquare(counts.numpy(), expected.numpy()).pvalue)
        assert len(found) >= 8
        return min(found) * len(found)  # Bonferroni

    assert least_p((scores[0].double() / 0.8).softmax(-1)) > 0.01
    assert least_p((scores[0].double() / 0.88).softmax(-1)) < 1e-3


@pytest.mark.parametrize("uniform", [0.0, 0.5, BELOW_ONE])
def test_a_candidate_of_no_mass_is_never_drawn(uniform):
    laws = torch.tensor([[0.0, 0.0, 1.0, 0.0], [0.0, 0.3, 0.7, 0.0], [0.1, 0.0, 0.0, 0.9]])
    places = draw(laws, torch.full((3,), uniform, dtype=torch.float64))
    assert (laws.gather(1, places[:, None]) > 0).all()


@pytest.mark.parametrize("uniform", [0.0, BELOW_ONE])
def test_greedy_and_sampled_blocks_share_a_batch(uniform):
    scores, candidates, _ = random_scores(8, 3, 5, 6)
    uniforms = torch.full((3, 5), uniform, dtype=torch.float64)
    walk = sampled_walk(scores, candidates, torch.tensor([0.0, 1.0, 0.0]), uniforms)
    greedy = greedy_walk(scores, candidates)
    assert torch.equal(walk.tokens[[0, 2]], greedy.tokens[[0, 2]])
    assert torch.equal(walk.q[[0, 2]], greedy.q[[0, 2]])
    assert (walk.q[[0, 2]].amax(-1) == 1).all() and (walk.q[1].amax(-1) < 1).all()


def test_the_greedy_walk_follows_the_best_candidate_after_the_best():
    scores, candidates, _ = random_scores(9, 4, 7, 5)
    walk = greedy_walk(scores, candidates)
    for block in range(4):
        place = 0
        for row in range(7):
            place = max(range(5), key=scores[block, row, place].tolist().__getitem__)
            assert walk.choices[block, row] == place
