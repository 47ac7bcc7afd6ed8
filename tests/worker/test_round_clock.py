"""Only whole rounds of one kind are timed."""

from __future__ import annotations

import pytest

from sglang_dspine.worker.round_clock import SETTLED, RoundClock


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return RoundClock(Time())


def rounds(clock, count: int, batch: int = 2, width: int = 8, seconds: float = 0.5) -> None:
    for _ in range(count):
        clock._now.now += seconds
        clock.start(batch, width)


def test_the_first_rounds_of_a_kind_are_counted_and_not_timed(clock):
    rounds(clock, SETTLED)
    cell = clock.cells[2, 8]
    assert (cell.rounds, cell.timed) == (SETTLED, 0)
    rounds(clock, 4)
    assert (cell.rounds, cell.timed, cell.seconds) == (SETTLED + 4, 4, 2.0)


def test_a_change_of_width_or_batch_starts_anew(clock):
    rounds(clock, SETTLED + 2)
    rounds(clock, SETTLED, width=4, seconds=9.0)
    rounds(clock, SETTLED, batch=3, seconds=9.0)
    assert clock.cells[2, 8].seconds == 1.0
    assert clock.cells[2, 4].timed == clock.cells[3, 8].timed == 0


def test_a_prefill_between_two_rounds_is_in_no_interval(clock):
    rounds(clock, SETTLED + 1)
    clock._now.now += 100
    clock.interrupt()
    rounds(clock, SETTLED + 1)
    assert clock.cells[2, 8].seconds == 1.0


def test_outcomes_are_counted_by_the_width_they_had(clock):
    rounds(clock, 1, width=8)
    clock.finish(2, 8, 7)
    assert clock.report() == [
        {"batch": 2, "width": 8, "rounds": 1, "timed": 0, "seconds": 0.0, "finished": 1, "tokens": 7}
    ]
    clock.reset()
    assert clock.report() == []
