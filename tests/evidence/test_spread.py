"""Which cells may be quoted, and how they are written."""

from sglang_dspine.evidence.spread import Spread


def test_a_range_beyond_the_gate_is_not_quoted():
    assert Spread((100, 103, 104)).within(0.05)
    assert not Spread((100, 103, 106)).within(0.05)


def test_a_single_trial_has_no_range_and_is_not_quoted():
    assert not Spread((100.0,)).within(0.05)


def test_it_is_written_as_the_published_tables_write_it():
    assert Spread((164.3, 153.4, 175.8, 164.3)).text() == "164.3 [153.4-175.8] (4)"
    assert Spread((38.3,)).text() == "38.3 (1)"


def test_missing_values_are_left_out_and_none_is_left_of_none():
    assert Spread.of([None, 2.0]).values == (2.0,) and Spread.of([None]) is None
