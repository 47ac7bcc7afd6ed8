"""Accepted lengths, and what is computed from their histograms."""

import numpy as np
import pytest
import torch

from sglang_dspine.acceptance.count import (
    Lengths,
    accepted_lengths,
    blocks,
    conditional,
    mean_length,
    ratio,
    truth_behind,
)


def test_what_follows_a_wrong_proposal_does_not_count():
    proposals = torch.tensor([[1, 2, 3], [9, 2, 3], [1, 9, 3], [9, 9, 9]])
    assert accepted_lengths(proposals, torch.tensor([[1, 2, 3]] * 4)).tolist() == [4, 1, 2, 1]


def test_truth_is_the_text_or_the_targets_choice_after_each_of_its_tokens():
    tokens, best = torch.arange(10), torch.arange(10) * 100
    assert truth_behind(tokens, best, [2, 5], 4, "recorded").tolist() == [[3, 4, 5], [6, 7, 8]]
    assert truth_behind(tokens, best, [2, 5], 4, "argmax").tolist() == [[200, 300, 400], [500, 600, 700]]


def test_means_and_conditionals_come_from_the_counts():
    lengths = Lengths(4)
    lengths.add("a", 0, [1, 1, 2, 4])
    lengths.add("b", 0, [3, 4, 4, 4])
    total = lengths.total()
    assert mean_length(total) == 23 / 8 and blocks(total) == 8
    assert conditional(total) == [(6, 8), (5, 6), (4, 5)]


def test_a_narrower_arm_keeps_the_lengths_that_fit():
    lengths = Lengths(3)
    lengths.add("a", 0, [1, 3, 7, 16])
    assert lengths.total().tolist() == [0, 1, 0, 3]


def test_buckets_are_kept_apart():
    lengths = Lengths(4)
    lengths.add("a", 0, [1, 1])
    lengths.add("a", 2, [4])
    assert lengths.buckets == [0, 2] and mean_length(lengths.total(0)) == 1 and mean_length(lengths.total(2)) == 4
    assert mean_length(lengths.total()) == 2


def drawn(rng: np.random.Generator, easy: np.ndarray, right: float) -> Lengths:
    """Blocks of sequences of any difficulty; `right` scales how often a proposal is."""
    lengths = Lengths(16)
    for i, share in enumerate(easy):
        lengths.add(f"s{i}", 0, np.minimum(rng.geometric(1 - share * right, 150), 16))
    return lengths


def test_a_planted_loss_of_a_tenth_is_found_and_equal_arms_are_not_called_different():
    found, wrong, values = 0, 0, []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        easy = rng.uniform(0.6, 0.85, 24)
        base, equal, worse = (drawn(rng, easy, right) for right in (1.0, 1.0, 0.955))
        lost = ratio(worse, base)
        values.append(lost.value)
        found += lost.high < 1
        wrong += ratio(equal, base).differs
    assert np.mean(values) == pytest.approx(0.9, abs=0.02)
    assert found == 30 and wrong <= 5  # of 30: between 1 and 2 are expected


def test_one_sequence_in_common_has_no_interval():
    a, b = Lengths(4), Lengths(4)
    a.add("x", 0, [1])
    a.add("y", 0, [1])
    b.add("y", 0, [2])
    assert ratio(a, b) is None
