"""Expected accepted length, and acceptance per position from what rounds accepted."""

from __future__ import annotations

import random

import pytest

from sglang_dspine.widths.acceptance import RECENT, Acceptance, _moments, expected_length, from_histogram


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


def test_before_any_round_the_estimate_is_the_tables():
    assert Acceptance(3, (0.6,)).profile == pytest.approx([0.6] * 3)
    assert Acceptance(2, (0.9, 0.5)).profile == pytest.approx([0.9, (0.5 + 0.9) / 2])


def test_the_mean_and_variance_of_a_round_are_those_of_its_distribution():
    profile = (0.9, 0.5, 0.3)
    chances = [0.1, 0.9 * 0.5, 0.9 * 0.5 * 0.7, 0.9 * 0.5 * 0.3]  # of 0, 1, 2 and 3 proposals
    mean = sum(count * chance for count, chance in enumerate(chances))
    variance = sum((count - mean) ** 2 * chance for count, chance in enumerate(chances))
    assert _moments(profile, 4) == pytest.approx((mean, variance))


class Watched(Acceptance):
    faded = 0

    def fade_to(self, limit: float) -> None:
        self.faded += 1
        super().fade_to(limit)


@pytest.mark.parametrize(
    ("requests", "accepted", "faded"), [(24, 2, 0), (24, 4, 0), (24, 5, 1), (23, 7, 0), (24, 7, 1)]
)
def test_only_what_lies_five_deviations_off_contradicts(requests, accepted, faded):
    """A mean of 2.1 with a deviation of 2.2: of 24 requests, 4 each are 4 deviations above it, 5 each more than 6."""
    acceptance = Watched(7, (0.7,) * 7)
    acceptance.note(8, [accepted] * requests)
    assert acceptance.faded == faded


def test_a_contradiction_is_answered_once():
    acceptance = Watched(7, (0.9,) * 7)
    for _ in range(100):
        acceptance.note(8, [7])
    before = acceptance.faded
    while acceptance.faded == before:
        acceptance.note(8, [0])
    for _ in range(RECENT - 1):
        acceptance.note(8, [0])
    assert acceptance.faded == before + 1


def test_fading_makes_heavy_counts_light_and_light_ones_no_heavier():
    acceptance = Acceptance(2, ())
    acceptance.note(3, [0] * 30 + [1] * 10)
    tried, (first, _) = list(acceptance.tried), acceptance.profile
    acceptance.fade_to(20)
    assert tried == [40, 10] and acceptance.tried == pytest.approx([20, 10])
    assert acceptance.profile[0] == pytest.approx((20 * 0.25 + 4 * first) / 24), "and the estimate follows"
