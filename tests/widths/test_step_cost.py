"""Times of batch sizes that were not measured: on the line between two, and never absurd beyond either end."""

from __future__ import annotations

import pytest

from sglang_dspine.widths.step_cost import StepCost, interpolate

XS, YS = (2, 4, 8), (10.0, 12.0, 20.0)


@pytest.mark.parametrize(("batch", "time"), [(1, 10), (2, 10), (3, 11), (4, 12), (5, 14), (8, 20), (9, 22), (16, 36)])
def test_a_time_lies_on_the_line_between_its_neighbours_and_on_the_last_one_beyond(batch, time):
    assert interpolate(XS, YS, batch) == time


def test_a_last_measurement_that_fell_is_not_carried_on_below():
    assert interpolate(XS, (10.0, 12.0, 8.0), 100) == 8
    assert interpolate(XS, (10.0, 12.0, 8.0), 6) == 10


def test_one_measured_batch_size_stands_for_all():
    cost = StepCost((4,), (1, 8), ((20.0, 24.0),))
    assert [cost(batch, 8) for batch in (1, 4, 64)] == [24, 24, 24]
