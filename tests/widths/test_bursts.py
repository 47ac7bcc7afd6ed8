"""When the adaptive policy leaves a width, how long it decodes plainly and what a probe decides: by the round."""

from __future__ import annotations

from itertools import groupby

import pytest

from sglang_dspine.widths.acceptance import expected_length
from sglang_dspine.widths.adaptive import DWELL, FIRST_BURST, LONGEST_BURST, PROBE, AdaptivePolicy
from sglang_dspine.widths.table import SpsTable

from .test_adaptive import COST, TABLE, WIDTHS, step_ms

BATCH = 4
PROBED = PROBE // BATCH  # rounds of a probe
NONE, ALL = 0, 15  # proposals that a round accepts, as far as it drafted them


def play(policy: AdaptivePolicy, rounds: int, accepted: int, batch: int = BATCH) -> list[int]:
    """The widths of the next rounds, whose outcomes are known at once."""
    widths = []
    for _ in range(rounds):
        widths.append(policy.choose(batch))
        policy.note(batch, widths[-1], [min(accepted, widths[-1] - 1)] * batch)
    return widths


def runs(widths: list[int]) -> list[int]:
    """How many rounds in turn drafted, did not, drafted, ..."""
    return [len(list(run)) for _, run in groupby(widths, key=lambda width: width > 1)]


def plain(bursts: int) -> AdaptivePolicy:
    """A policy that has just found, for the last of so many times, that drafting does not pay."""
    policy = AdaptivePolicy(TABLE, WIDTHS)
    play(policy, DWELL, NONE)
    for burst in range(bursts):
        play(policy, min(FIRST_BURST << burst, LONGEST_BURST) + PROBED, NONE)
    return policy


def test_each_burst_is_twice_the_one_before_up_to_the_longest():
    widths = play(AdaptivePolicy(TABLE, WIDTHS), 1300, NONE)
    lengths = [FIRST_BURST, 2 * FIRST_BURST, 4 * FIRST_BURST, LONGEST_BURST, LONGEST_BURST]
    expected = [DWELL, *(rounds for length in lengths for rounds in (length, PROBED))]
    assert runs(widths)[: len(expected)] == expected


def test_when_drafting_pays_again_the_next_burst_is_the_first_ones_length():
    policy = plain(4)
    assert runs(play(policy, LONGEST_BURST + 100, ALL)) == [LONGEST_BURST, 100], "the probe saw that it pays"
    widths = play(policy, 100 + FIRST_BURST + PROBED, NONE)
    assert runs(widths)[1] == FIRST_BURST
    assert policy.report()["probes"] == 4 + 1 + 1


def test_another_batch_size_that_stops_drafting_leaves_the_burst_its_length():
    policy = AdaptivePolicy(TABLE, WIDTHS)
    assert policy.choose(16) > 1
    play(policy, DWELL + FIRST_BURST + PROBED + 2 * FIRST_BURST + PROBED, NONE)
    assert runs(play(policy, 4 * FIRST_BURST + 1, NONE, batch=16)) == [4 * FIRST_BURST, 1]


def test_a_width_that_was_taken_up_is_kept_for_its_time_too():
    policy = plain(1)
    play(policy, 2 * FIRST_BURST + 1, ALL)
    taken = play(policy, 1, ALL)[0]
    assert taken > 1, "taken up after one round of the probe"
    kept = play(policy, DWELL, NONE)
    assert set(kept[:-1]) == {taken} and kept[-1] != taken


def test_what_a_probe_saw_decides_at_once_for_every_batch_size():
    policy = plain(1)
    play(policy, 2 * FIRST_BURST - 1, NONE)
    assert policy.choose(8) == 1, "the first round of this batch size"
    assert play(policy, 1, ALL, batch=16)[0] > 1, "a probe of one round"
    assert policy.choose(8) > 1


@pytest.mark.parametrize("widths", [(1, 2), (1, 2, 16)])
def test_a_probe_drafts_the_width_that_is_worth_most(widths):
    policy = AdaptivePolicy(TABLE, widths)
    assert play(policy, DWELL + FIRST_BURST + 1, NONE)[-1] == 2


def test_with_width_1_alone_nothing_is_ever_drafted():
    assert set(play(AdaptivePolicy(TABLE, (1,)), 2 * FIRST_BURST, NONE)) == {1}


def test_rates_are_those_of_the_acceptance_it_reports_in_every_round():
    policy = AdaptivePolicy(TABLE, WIDTHS)
    for accepted in (ALL, NONE):
        for _ in range(2 * FIRST_BURST):
            width = policy.choose(BATCH)  # which a probe precedes by forgetting
            exact = policy._acceptance.profile
            assert policy.report()["acceptance"] == pytest.approx(exact, abs=1e-4) and len(exact) == max(WIDTHS) - 1
            assert policy.rate(BATCH, 8) == pytest.approx(expected_length(exact, 8) / step_ms(BATCH, 8), rel=1e-9)
            policy.note(BATCH, width, [min(accepted, width - 1)] * BATCH)


def test_where_drafting_never_paid_the_first_burst_comes_first():
    policy = AdaptivePolicy(SpsTable((16,), cost=COST, acceptance=(0.02,)), WIDTHS)
    assert runs(play(policy, FIRST_BURST + PROBED, NONE)) == [FIRST_BURST, PROBED]


def test_the_report_counts_rounds_by_width_and_changes_of_width():
    policy = AdaptivePolicy(TABLE, WIDTHS)
    widths = play(policy, DWELL + 2, NONE)
    assert policy.report()["chosen"] == {"1": 2, str(widths[0]): DWELL} and policy.report()["switches"] == 1
