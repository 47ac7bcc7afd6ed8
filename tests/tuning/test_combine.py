"""Widths are chosen for most expected tokens per second, from complete and quiet measurements only."""

from __future__ import annotations

import pytest

from sglang_dspine.tuning.cells import Cell
from sglang_dspine.tuning.combine import combine, rates
from sglang_dspine.tuning.failure import TuningError
from sglang_dspine.tuning.simulated import PROFILE, known_cost
from sglang_dspine.widths.acceptance import expected_length
from sglang_dspine.widths.parse import parse_table, render_table

BATCHES, WIDTHS = (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 12, 16)
ABOUT = {"gpu": "g", "source": "a test"}


def cells(cost=known_cost, batches=BATCHES, widths=WIDTHS, spread=0.0):
    return {
        (b, w): Cell(b, w, [cost(b, w) * (1 + spread * x) for x in (-1, -0.5, 0, 0.5, 1)])
        for b in batches
        for w in widths
    }  # fmt: skip


def test_the_optimum_of_the_known_cost_is_chosen_at_every_batch():
    table = combine(cells(), PROFILE, ABOUT)
    for batch in range(1, 33):
        rate = {w: expected_length(PROFILE, w) / known_cost(batch, w) for w in WIDTHS}
        assert rate[table.width_of(batch)] > 0.98 * max(rate.values()), batch
    assert table.width_of(1) == 16 and table.width_of(32) < 16


def test_another_profile_gives_another_table_from_the_same_cells():
    measured = cells()
    assert combine(measured, [0.02], ABOUT).widths == (1,)
    assert combine(measured, [0.999], ABOUT).width_of(1) == 16


def test_the_table_can_be_read_back():
    table = combine(cells(), PROFILE, ABOUT)
    again = parse_table(render_table(table), "again")
    assert (again.widths, again.cost, again.acceptance) == (table.widths, table.cost, table.acceptance)


@pytest.mark.report(31)
def test_times_that_do_not_vary_with_width_are_refused():
    with pytest.raises(TuningError, match="round times do not depend on the width"):
        combine(cells(lambda b, w: 20.0 + 0.3 * b), PROFILE, ABOUT)


@pytest.mark.report(31)
def test_a_server_that_drafts_at_one_width_is_refused_though_plain_decode_is_cheaper():
    with pytest.raises(TuningError, match=r"width 16 costs at most .* more than width 2"):
        combine(cells(lambda b, w: 20.0 if w == 1 else 23.0), PROFILE, ABOUT)
    combine(cells(widths=(1, 16)), PROFILE, ABOUT)  # one width that drafts shows nothing either way


def test_step_times_that_adaptive_would_choose_by_hold_no_noisy_width():
    measured = cells()
    measured[8, 16].visits = [5.0, 9.0, 12.0, 40.0, 60.0]
    table = combine(measured, PROFILE, ABOUT)
    assert table.cost.widths == (1, 2, 4, 8, 12) and 16 not in table.widths[4:15]
    for cell in measured.values():
        cell.visits = cell.visits if cell.batch != 8 or cell.width == 4 else [5.0, 9.0, 12.0, 40.0, 60.0]
    assert combine(measured, PROFILE, ABOUT).cost.widths == (4,)


def test_a_hole_in_the_grid_is_named():
    measured = cells()
    del measured[4, 8]
    with pytest.raises(TuningError, match="batch 4, width 8 was not measured"):
        combine(measured, PROFILE, ABOUT)


def test_a_noisy_cell_is_not_chosen():
    measured = cells()
    best = combine(measured, PROFILE, ABOUT).width_of(32)
    measured[32, best].visits = [ms * factor for ms in [measured[32, best].ms] for factor in (0.8, 0.9, 1, 1.1, 1.2)]
    assert combine(measured, PROFILE, ABOUT).width_of(32) != best
    assert [r.width for r in rates(measured, PROFILE) if r.refused] == [best]


def test_where_every_cell_is_noisy_nothing_is_chosen():
    with pytest.raises(TuningError, match="more than 5 % apart"):
        combine(cells(spread=0.2), PROFILE, ABOUT)


def test_a_cell_says_median_and_range():
    cell = Cell(1, 8, [10.0, 10.4, 10.1])
    assert cell.ms == 10.1 and cell.spread == pytest.approx(0.4 / 10.1) and not cell.noisy
    assert Cell(1, 8, [10.0]).noisy, "one visit says nothing about noise"
