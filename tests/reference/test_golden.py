"""The public training code's own numbers, from its own forward pass, are reproduced."""

import pytest
import torch

from sglang_dspine.reference import DEFAULT, FIXED_FLOAT64, FLOAT64, Drafter, greedy_walk

from .cases import CASES, DTYPES, drafter_of, golden

EVERY = [(case, dtype, index) for case in CASES for dtype in DTYPES for index in range(3)]
NUMBERS = ("block_hidden", "pre_injection", "layer_features", "scores")


def propose(case, dtype, index, arithmetic=DEFAULT, low_rank=False):
    given = golden(case, dtype, index)
    drafter = drafter_of(case, DTYPES[dtype], arithmetic, low_rank)
    return given, drafter.propose(given["target_features"][None], given["anchor"])


def worst(found, given):
    """Largest difference relative to the largest value, as one number."""
    return float((found - given).abs().max() / given.abs().max())


def check(given, proposal, tolerance):
    assert torch.equal(proposal.candidates[0], given["candidates"])
    assert torch.equal(proposal.tokens[0], given["path"])
    for key in NUMBERS:
        found = getattr(proposal, key)
        found = found[:, 0] if key == "layer_features" else found[0]
        assert found.shape == given[key].shape
        assert worst(found, given[key]) < tolerance, key


@pytest.mark.parametrize(("case", "dtype", "index"), EVERY)
def test_every_key_is_reproduced(case, dtype, index):
    check(*propose(case, dtype, index), tolerance={"f64": 1e-6, "f32": 2e-6}[dtype])


@pytest.mark.parametrize(("case", "index"), [(case, index) for case in CASES for index in range(3)])
@pytest.mark.parametrize("arithmetic", [FLOAT64, FIXED_FLOAT64], ids=["blas", "fixed"])
def test_purely_float64_agrees_within_what_float32_statistics_cost(case, index, arithmetic):
    check(*propose(case, "f64", index, arithmetic), tolerance=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_a_bfloat16_drafter_stays_within_its_rounding(case):
    """Against the same rounded weights and inputs in float64: 5 % of the largest value after all layers."""
    given, rounded = golden(case, "f32", 1), drafter_of(case, torch.bfloat16)
    weights = {name: weight.double() for name, weight in rounded.weights.items()}
    exact = Drafter(rounded.config, weights, rounded.embed.double(), rounded.head.double())
    taps = given["target_features"][None].bfloat16()
    found, truth = rounded.propose(taps, given["anchor"]), exact.propose(taps.double(), given["anchor"])
    assert found.block_hidden.dtype == torch.bfloat16 and found.scores.dtype == torch.float32
    for key in NUMBERS[:3]:
        assert 1e-4 < worst(getattr(found, key).double(), getattr(truth, key)) < 5e-2, key


@pytest.mark.parametrize(("case", "dtype", "index"), EVERY)
def test_the_low_rank_table_is_the_published_table(case, dtype, index):
    check(*propose(case, dtype, index, low_rank=True), tolerance=2e-6)


@pytest.mark.parametrize(("case", "dtype", "index"), EVERY)
def test_walking_the_published_table_gives_the_published_path(case, dtype, index):
    given = golden(case, dtype, index)
    walk = greedy_walk(given["scores"][None], given["candidates"][None])
    assert torch.equal(walk.tokens[0], given["path"])
