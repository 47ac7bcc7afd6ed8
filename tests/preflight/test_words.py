"""Values of flags."""

from __future__ import annotations

import pytest

from sglang_dspine.preflight.words import number_of, value_of


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ([], None),
        (["--a", "1"], "1"),
        (["--a=1"], "1"),
        (["--a", "1", "--a=2"], "2"),
        (["--a=2", "--a", "1", "--b", "3"], "1"),
        (["--a", "--b"], None),
        (["--a"], None),
        (["--ab", "1"], None),
    ],
)
def test_the_last_value_counts(words, value):
    assert value_of(words, "--a") == value


def test_what_is_no_number_is_left_to_sglang():
    assert number_of(["--a", "x"], "--a", 3.0) == 3.0 and number_of(["--a", "2"], "--a", 3.0) == 2.0
