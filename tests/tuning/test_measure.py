"""Cells are visited there and back, noisy ones again, a killed run goes on, a forced width is checked."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from sglang_dspine.tuning.bench import Reading
from sglang_dspine.tuning.failure import TuningError
from sglang_dspine.tuning.measure import Plan, measure
from sglang_dspine.tuning.order import there_and_back
from sglang_dspine.tuning.simulated import SimulatedBench
from sglang_dspine.tuning.store import RAW, Store

PLAN = Plan((1, 4), (1, 8), visits=4, rounds=10)


class Recorded(SimulatedBench):
    """Notes every visit; `restless` cells never agree."""

    def __init__(self, widths=(1, 8), restless=(), stop_after=None):
        super().__init__(widths)
        self.seen, self.restless, self.stop_after = [], restless, stop_after

    @contextmanager
    def load(self, batch):
        with super().load(batch) as load:
            yield load

    def read(self, batch, width, rounds):
        self.seen.append((batch, width))
        if self.stop_after is not None and len(self.seen) > self.stop_after:
            raise KeyboardInterrupt
        reading = super().read(batch, width, rounds)
        if (batch, width) in self.restless:
            return Reading(reading.ms * (1 + 0.3 * (len(self.seen) % 3)), rounds, 1.0)
        return reading


def test_widths_are_visited_there_and_back():
    assert list(there_and_back((1, 2, 3), 3)) == [1, 2, 3, 3, 2, 1, 1, 2, 3]


def test_every_cell_gets_its_visits_after_one_to_warm(tmp_path):
    bench, store = Recorded(), Store(tmp_path)
    store.begin({})
    cells = measure(bench, PLAN, store)
    assert {key: len(cell.visits) for key, cell in cells.items()} == {(b, w): 4 for b in (1, 4) for w in (1, 8)}
    assert bench.seen[:6] == [(1, 1), (1, 8), (1, 1), (1, 8), (1, 8), (1, 1)]


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    store = Store(tmp_path)
    store.begin({"gpu": "g"})
    with pytest.raises(KeyboardInterrupt):
        measure(Recorded(stop_after=7), PLAN, store)
    with (tmp_path / RAW).open("a") as file:
        file.write('{"batch": 1, "wid')  # the line that the kill cut short
    kept = sum(len(cell.visits) for cell in Store(tmp_path).begin({"gpu": "g"}).values())
    assert kept == 5
    bench = Recorded()
    cells = measure(bench, PLAN, store)
    assert len(bench.seen) == 16 - kept + 4, "what was measured is not measured again, but each load is warmed"
    assert all(len(cell.visits) == 4 for cell in cells.values())


def test_measurements_of_something_else_are_not_mixed(tmp_path):
    Store(tmp_path).begin({"gpu": "A"})
    with pytest.raises(TuningError, match="gpu 'A', this run has 'B'"):
        Store(tmp_path).begin({"gpu": "B"})


def test_another_grid_in_the_same_folder_gets_its_own_table(tmp_path):
    store = Store(tmp_path)
    store.begin({})
    first = measure(Recorded((1, 8, 16)), Plan((1, 2), (1, 8), visits=4, rounds=10), store)
    other = measure(Recorded((1, 8, 16)), Plan((1, 4), (1, 8, 16), visits=4, rounds=10), store)
    assert set(first) == {(b, w) for b in (1, 2) for w in (1, 8)}
    assert set(other) == {(b, w) for b in (1, 4) for w in (1, 8, 16)} == set(store.planned())
    assert other[1, 1].visits == first[1, 1].visits


def test_a_visit_behind_a_line_cut_short_is_kept(tmp_path):
    store = Store(tmp_path)
    store.add(1, 8, 2.0, 3.0)
    with (tmp_path / RAW).open("a") as file:
        file.write('{"batch": 1, "wid')
    store.add(1, 8, 4.0, 3.0)
    assert store.cells()[1, 8].visits == [2.0, 4.0]


def test_a_noisy_cell_is_measured_again_and_no_visit_is_dropped(tmp_path):
    said, store = [], Store(tmp_path)
    store.begin({})
    cells = measure(Recorded(restless=[(4, 8)]), PLAN, store, said.append)
    assert len(cells[4, 8].visits) == 8 and len(cells[4, 1].visits) == 4
    assert cells[4, 8].noisy and "batch 4, width 8 again" in said[-1]
    assert len((tmp_path / RAW).read_text().splitlines()) == sum(len(cell.visits) for cell in cells.values())


def test_a_server_without_the_width_is_refused_with_the_way_to_start_it(tmp_path):
    with pytest.raises(TuningError, match=r"not prepared for widths \[16\].*DSPINE_WIDTHS=8,16"):
        measure(Recorded((1, 8)), Plan((1,), (8, 16)), Store(tmp_path))
