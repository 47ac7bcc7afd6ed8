"""Every row of every table, three ways: direct, one predecessor at a time, low-rank."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sglang_dspine.reference import (
    DEFAULT,
    FIXED_FLOAT64,
    FLOAT64,
    LowRank,
    code_features,
    greedy_walk,
    refine_serially,
    refined_states,
    transition_table_direct,
    transition_table_low_rank,
)
from sglang_dspine.reference.table import Refiner

from .cases import CASES, drafter_of, few, random_inputs
from .test_bridge import by_definition, random_bridge

VOCABULARY = 29


def random_refiner(seed, dtype=torch.float64, scale=1.0, rank=6, message=5, hidden=12):
    bridge = random_bridge(seed, hidden, rank, message, VOCABULARY, scale=scale)
    generator = torch.Generator().manual_seed(seed + 1)
    norm = 1 + torch.randn(hidden, generator=generator, dtype=torch.float64) / 4
    head = torch.randn(VOCABULARY + 3, hidden, generator=generator, dtype=torch.float64)
    return to(Refiner(bridge, norm, head, eps=1e-6), dtype)


def to(node, dtype):
    """The same dataclass of tensors in another dtype."""
    if isinstance(node, torch.Tensor):
        return node.to(dtype)
    if isinstance(node, tuple):
        return tuple(to(item, dtype) for item in node)
    if dataclasses.is_dataclass(node):
        return type(node)(**{name: to(item, dtype) for name, item in vars(node).items()})
    return node


def random_rows(seed, blocks=2, rows=4, top_k=5, hidden=12):
    generator = torch.Generator().manual_seed(seed + 2)
    x = torch.randn(blocks, rows, hidden, generator=generator, dtype=torch.float64)
    drawn = torch.rand(blocks, rows, VOCABULARY, generator=generator).argsort(-1)[..., :top_k]
    return x, drawn, torch.randint(VOCABULARY, (blocks,), generator=generator)


@few
@given(seed=st.integers(0, 999))
def test_each_entry_is_the_head_score_after_an_injection_with_that_predecessor(seed):
    """By the definition of the injection, one row, one predecessor, the whole vocabulary."""
    refiner, (x, candidates, anchor) = random_refiner(seed), random_rows(seed)
    table = transition_table_direct(x, candidates, anchor, refiner, FLOAT64)
    for block in range(2):
        for row in range(4):
            for c in range(5):
                previous = candidates[block, row - 1, c] if row else anchor[block]
                pair = torch.stack((torch.zeros(12, dtype=torch.float64), x[block, row]))
                y = by_definition(pair, previous, -1, refiner.bridge)[1]
                y = refiner.norm * y / (y.square().mean() + refiner.eps).sqrt()
                scores = (refiner.head @ y)[candidates[block, row]]
                torch.testing.assert_close(table[block, row, c], scores, rtol=1e-11, atol=1e-11)


@few
@given(case=st.sampled_from(CASES), seed=st.integers(0, 999))
def test_walking_the_table_equals_refining_row_by_row(case, seed):
    drafter = drafter_of(case, torch.float64, FIXED_FLOAT64)
    proposal = drafter.propose(*(inputs := random_inputs(case, seed, blocks=2, span=11)))
    given_ = (proposal.pre_injection[:, 1:], proposal.candidates, inputs[1], drafter.refiner, FIXED_FLOAT64)
    tokens, scores = refine_serially(*given_)
    assert torch.equal(tokens, proposal.tokens)
    on_path = torch.cat((torch.zeros(2, 1, dtype=torch.int64), proposal.choices[:, :-1]), dim=1)
    walked = proposal.scores.take_along_dim(on_path[..., None, None], dim=2).squeeze(2)
    assert torch.equal(scores, walked)


@few
@given(case=st.sampled_from(CASES), seed=st.integers(0, 999))
def test_every_row_of_every_table_is_a_serial_refinement(case, seed):
    """Not only the rows a walk visits: each candidate in turn is taken as the predecessor."""
    drafter = drafter_of(case, torch.float64, FIXED_FLOAT64)
    proposal = drafter.propose(*(inputs := random_inputs(case, seed, blocks=1, span=5)))
    x, candidates = proposal.pre_injection[:, 1:], proposal.candidates
    _, rows, top_k = candidates.shape
    for c in range(top_k):
        previous = torch.cat((inputs[1][:, None], candidates[:, :-1, c]), dim=1)  # [1, R]
        y = refined_states(x, previous.unsqueeze(-1), drafter.refiner, FIXED_FLOAT64)
        for row in range(rows):
            logits = FIXED_FLOAT64.product(y[:, row], drafter.head)[0, 0]  # the whole vocabulary
            assert torch.equal(proposal.scores[0, row, c], logits[candidates[0, row]])


def test_the_first_row_has_one_predecessor_and_the_others_differ():
    refiner, (x, candidates, anchor) = random_refiner(3), random_rows(3)
    table = transition_table_direct(x, candidates, anchor, refiner, FLOAT64)
    assert (table[:, 0] == table[:, 0, :1]).all()
    assert (table[:, 1:] != table[:, 1:, :1]).any(-1)[..., 1:].all()


@few
@given(seed=st.integers(0, 999), scale=st.sampled_from([0.1, 1.0, 4.0]), size=st.sampled_from([1e-3, 1.0, 1e3]))
def test_low_rank_equals_direct_in_float64(seed, scale, size):
    refiner, (x, candidates, anchor) = random_refiner(seed, scale=scale), random_rows(seed)
    direct = transition_table_direct(size * x, candidates, anchor, refiner, FLOAT64)
    low_rank = LowRank.prepare(refiner, arithmetic=FLOAT64)
    found = transition_table_low_rank(size * x, candidates, anchor, low_rank, FLOAT64)
    assert (found - direct).abs().max() < 1e-10


@pytest.mark.parametrize("case", CASES)
def test_low_rank_equals_direct_in_float64_on_real_states(case):
    drafter = drafter_of(case, torch.float64, FLOAT64)
    taps, anchor = random_inputs(case, 6, blocks=4, span=25)
    direct = drafter.propose(taps, anchor)
    low_rank = drafter_of(case, torch.float64, FLOAT64, low_rank=True).propose(taps, anchor)
    assert (direct.scores - low_rank.scores).abs().max() < 1e-10
    assert torch.equal(direct.tokens, low_rank.tokens)


def errors(seed, dtype, store=None, **shape):
    """Largest error of (direct, low rank) in `dtype` against float64, on identical inputs, over max |S|."""
    refiner = random_refiner(seed, dtype, **shape)
    x, candidates, anchor = random_rows(seed, hidden=shape["hidden"])
    x = x.to(dtype)
    truth = transition_table_direct(x.double(), candidates, anchor, to(refiner, torch.float64), FLOAT64)
    direct = transition_table_direct(x, candidates, anchor, refiner, DEFAULT)
    found = transition_table_low_rank(x, candidates, anchor, LowRank.prepare(refiner, store), DEFAULT)
    return [float((t - truth).abs().max() / truth.abs().max()) for t in (direct, found)]


SHAPE = {"hidden": 256, "rank": 64, "message": 32, "scale": 0.1}


@pytest.mark.parametrize("seed", range(5))
def test_low_rank_in_float32_rounds_like_direct(seed):
    """Stated rounding: 1e-6 of the largest score (8 units of float32), as direct itself does here."""
    assert max(errors(seed, torch.float32, **SHAPE)) < 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_low_rank_of_a_bfloat16_drafter_rounds_less_than_direct(seed):
    """Direct rounds each projection, the refined state and the score; low rank only what is kept at load."""
    direct, stored = errors(seed, torch.bfloat16, **SHAPE)
    _, kept = errors(seed, torch.bfloat16, store=torch.float32, **SHAPE)
    assert kept < stored < direct < 2e-2


@pytest.mark.parametrize("low_rank", [False, True], ids=["direct", "low_rank"])
def test_zero_states_stay_finite(low_rank):
    refiner, (x, candidates, anchor) = random_refiner(4), random_rows(4)
    x[0] = 0
    x[1, 2] = 1e-200  # its square is zero
    prepared = LowRank.prepare(refiner) if low_rank else refiner
    form = transition_table_low_rank if low_rank else transition_table_direct
    table = form(x, candidates, anchor, prepared, DEFAULT)
    assert table.isfinite().all()
    assert (table[0] == 0).all()


def test_a_write_that_cancels_the_state_stays_finite_in_low_rank():
    """|y|^2 is zero there: its three terms cancel, and their rounding takes the sum below zero."""
    for seed in range(20):
        made, (_, candidates, anchor) = random_refiner(seed), random_rows(seed)
        deaf = torch.zeros_like(made.bridge.receiver_gate)  # z then depends on the predecessor alone
        shared = dataclasses.replace(made.bridge, receiver_gate=deaf)
        code = code_features(anchor[0], shared.codes)
        z = torch.sigmoid(shared.predecessor_gate @ code + shared.bias) * (shared.message @ code)
        write = shared.writes[-1] * 12**0.5 / (shared.writes[-1] @ z).norm()  # a write as long as the state
        bridge = dataclasses.replace(shared, writes=(write,) * 2)
        refiner = to(dataclasses.replace(made, bridge=bridge), torch.float32)
        x = (-1e4 * write @ z).float().expand(2, 4, 12)

        table = transition_table_low_rank(x, candidates, anchor, LowRank.prepare(refiner), DEFAULT)
        assert table.isfinite().all()


def test_padded_head_rows_and_unused_candidates_do_not_enter_a_table():
    refiner, (x, candidates, anchor) = random_refiner(6), random_rows(6)
    used = torch.zeros(len(refiner.head), dtype=torch.bool)
    used[candidates.flatten()] = True
    poisoned = dataclasses.replace(refiner, head=refiner.head.masked_fill(~used[:, None], torch.nan))
    expected = transition_table_direct(x, candidates, anchor, refiner)
    assert torch.equal(transition_table_direct(x, candidates, anchor, poisoned), expected)
    found = transition_table_low_rank(x, candidates, anchor, LowRank.prepare(poisoned))
    torch.testing.assert_close(found, transition_table_low_rank(x, candidates, anchor, LowRank.prepare(refiner)))


def test_equal_scores_are_walked_by_the_better_unary_candidate():
    scores = torch.zeros(1, 3, 4, 4)
    candidates = torch.tensor([[[9, 3, 5, 1]] * 3])
    assert greedy_walk(scores, candidates).tokens.tolist() == [[9, 9, 9]]
