"""E2: a wrong recurrent state is seen in the rows, rounding is not."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_dspine.errors import DSpineError
from sglang_dspine.exactness.teacher_forced import (
    MIN_ROWS,
    Rows,
    compare,
    position_bins,
    rows_beyond,
    rows_from_logits,
)

from .recurrence import VOCAB, Cell, plain, verify

LENGTH, TEXTS = 96, 40


def joined(parts):
    return Rows(*(np.concatenate([getattr(p, name) for p in parts]) for name in Rows.__annotations__))


def arms(committed=lambda length: length, seed=0):
    """DSPINE's rows and the control's, of TEXTS texts of LENGTH tokens."""
    cell, rng = Cell(), np.random.default_rng(seed)
    test, control = [], []
    for _ in range(TEXTS):
        text = rng.integers(VOCAB, size=LENGTH)
        lengths = []
        while sum(lengths) < LENGTH:
            lengths.append(min(int(rng.integers(1, 9)), LENGTH - sum(lengths)))
        position = np.arange(1, LENGTH + 1)
        used, accepted = verify(cell, text, lengths, rng, committed)
        test.append(rows_from_logits(used, plain(cell, text, rng), position, accepted))
        again = rows_from_logits(plain(cell, text, rng), plain(cell, text, rng), position)
        control.append(Rows(again.position, again.delta, again.margin, again.flipped, np.zeros(LENGTH, int)))
    return joined(test), joined(control)


def test_rounding_alone_passes():
    report = compare(*arms(), "")
    assert report.passed, report.lines
    assert report.facts["worst_ratio"] < 1.3


@pytest.mark.parametrize(
    ("fault", "committed"),
    [
        ("one step early", lambda length: length - 1),
        ("one step late", lambda length: length + 1),
        ("one step early after full acceptance only", lambda length: length - (length == 8)),
        ("one step late after a total rejection only", lambda length: length + (length == 1)),
    ],
)
def test_a_wrong_state_fails(fault, committed):
    report = compare(*arms(committed), "")
    assert not report.passed, (fault, report.lines)


def test_a_rare_wrong_commit_hides_from_the_median_of_all_rows_but_not_from_its_own_rounds():
    """After one of eight accepted lengths: the comparison per accepted length names it."""
    test, control = arms(lambda length: length - (length == 8))
    report = compare(test, control, "")
    table = {row[0]: row[-1] for row in report.tables[0].rows}
    per_length = {name: ratio for name, ratio in table.items() if name.startswith("after")}
    assert max(per_length, key=per_length.get) == "after accepted length 8"


def lognormal(rng, n, scale=1.0, position=None):
    delta = scale * np.exp(rng.normal(size=n))
    position = rng.integers(1, 65, size=n) if position is None else position
    return Rows(position, delta, np.full(n, 1e9), np.zeros(n, bool))


def test_honest_arms_seldom_fail():
    """Deltas of one log-normal law in both arms, 100 reports: at most 3 fail."""
    rng = np.random.default_rng(0)
    failed = sum(not compare(lognormal(rng, 3000), lognormal(rng, 3000), "").passed for _ in range(100))
    assert failed <= 3


@pytest.mark.parametrize("scale", [2.0, 4.0])
def test_wider_arms_fail(scale):
    rng = np.random.default_rng(0)
    assert not compare(lognormal(rng, 2000, scale), lognormal(rng, 2000), "").passed


def test_a_fault_at_late_positions_only_fails():
    """Four positions of 64: the quantiles over all rows would let it pass."""
    rng = np.random.default_rng(0)
    test, control = lognormal(rng, 4000), lognormal(rng, 4000)
    test.delta[test.position > 60] *= 3
    report = compare(test, control, "")
    rows = {row[0]: row[-1] for row in report.tables[0].rows}
    assert rows["all positions"] < 1.5
    assert not report.passed


def test_a_few_rows_beyond_anything_the_control_shows_fail():
    rng = np.random.default_rng(0)
    test, control = lognormal(rng, 2000), lognormal(rng, 2000)
    test.delta[:15] = 10 * control.delta.max()
    assert rows_beyond(test, control) == (15, True)
    assert not compare(test, control, "").passed
    test.delta[1:15] = 1.0
    assert rows_beyond(test, control)[1] is False


def test_a_flip_of_a_wide_margin_fails_and_of_a_narrow_one_passes():
    rng = np.random.default_rng(0)
    test, control = lognormal(rng, 1000), lognormal(rng, 1000)
    test.flipped[0] = True
    test.margin[0] = control.delta.max()
    assert compare(test, control, "").passed
    test.margin[0] = 10 * control.delta.max()
    assert not compare(test, control, "").passed


def test_equal_arms_of_an_exact_machine_pass_and_any_difference_beside_them_fails():
    n = 900
    exact = Rows(np.ones(n, int), np.zeros(n), np.ones(n), np.zeros(n, bool))
    assert compare(exact, exact, "").passed
    off = Rows(exact.position, np.full(n, 1e-3), exact.margin, exact.flipped)
    assert not compare(off, exact, "").passed


def test_without_a_control_only_zero_passes():
    n = 5
    zero = Rows(np.ones(n, int), np.zeros(n), np.ones(n), np.zeros(n, bool))
    assert compare(zero, None, "").passed
    assert not compare(Rows(zero.position, np.full(n, 1e-9), zero.margin, zero.flipped), None, "").passed


def test_a_target_that_prefers_no_token_is_no_target():
    n = 900
    flat = Rows(np.ones(n, int), np.zeros(n), np.zeros(n), np.zeros(n, bool))
    with pytest.raises(DSpineError, match="900 of 900 rows the two best tokens are equally probable"):
        compare(flat, flat, "here")
    few = Rows(flat.position, flat.delta, (np.arange(n) % 20 > 0).astype(float), flat.flipped)
    assert compare(few, few, "").passed


def test_too_few_rows_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(DSpineError, match="too few to compare"):
        compare(lognormal(rng, 300), lognormal(rng, 5000), "")


def test_a_row_without_a_number_is_infinitely_far():
    used = np.array([[1.0, np.nan], [0.0, -np.inf], [2.0, 1.0]])
    rescored = np.array([[1.0, 0.0], [0.5, -np.inf], [1.0, 2.0]])
    rows = rows_from_logits(used, rescored, np.arange(3))
    assert rows.delta.tolist() == [np.inf, 0.5, 1.0]
    assert rows.flipped.tolist()[1:] == [False, True]
    with pytest.raises(DSpineError, match="expected one shape"):
        rows_from_logits(used, rescored[:2], np.arange(3))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=3000), st.lists(st.integers(1, 40), max_size=3000))
def test_bins_cover_every_position_once_with_rows_enough(test, control):
    test, control = np.array(test, int), np.array(control, int)
    bins = position_bins(test, control)
    assert all(high == low for (_, high), (low, _) in pairwise(bins))
    for low, high in bins:
        assert min(((p >= low) & (p < high)).sum() for p in (test, control)) >= MIN_ROWS
    if bins:
        assert bins[0][0] == 1
        assert bins[-1][1] > max(test.max(), control.max())
