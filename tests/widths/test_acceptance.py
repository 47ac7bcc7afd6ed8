"""Expected accepted length, and acceptance per position from what rounds accepted."""

from __future__ import annotations

import random

import pytest

from sglang_dspine.widths.acceptance import Acceptance, expected_length, from_histogram


def test_expected_length_is_one_and_the_chance_to_reach_each_position():
    assert expected_length([0.5, 0.5, 0.5], 1) == 1
    assert expected_length([0.5, 0.4], 3) == pytest.approx(1 + 0.5 + 0.2)
    assert expected_length([0.5], 4) == pytest.approx(1.875)  # the last one stands for later positions
    assert expected_length([], 8) == 1


def test_a_histogram_of_accepted_proposals_gives_conditional_acceptance():
    # of 10 rounds: 4 accepted none, 3 one, 3 two
    assert from_histogram([4, 3, 3], 2) == (0.6, 0.5)
    assert from_histogram([10], 3) == (0.0,)  # later positions were never reached


def test_the_estimate_finds_the_acceptance_of_the_workload():
    profile, draw = [0.8, 0.6, 0.9, 0.5, 0.5, 0.5, 0.5], random.Random(3)
    acceptance = Acceptance(7, ())
    for _ in range(400):
        counts = []
        for _ in range(8):
            count = 0
            while count < 7 and draw.random() < profile[count]:
                count += 1
            counts.append(count)
        acceptance.note(8, counts)
    assert acceptance.profile[:4] == pytest.approx(profile[:4], abs=0.08)


def test_positions_beyond_the_width_follow_the_last_one_seen():
    acceptance = Acceptance(15, ())
    for _ in range(200):
        acceptance.note(2, [0, 0, 0, 0])
    assert max(acceptance.profile) < 0.02


def test_a_text_that_turns_is_believed_within_a_few_rounds():
    acceptance = Acceptance(7, ())
    for _ in range(100):
        acceptance.note(8, [7, 7, 6, 7])
    for _ in range(12):
        acceptance.note(8, [0, 0, 0, 0])
    assert expected_length(acceptance.profile, 8) < 2
