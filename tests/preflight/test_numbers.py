"""Values after `--` that no server could start with are failures, whatever the budget would make of them."""

from __future__ import annotations

import pytest

from sglang_dspine.preflight.numbers import check_numbers


@pytest.mark.parametrize(
    "flag, value",
    [
        ("--mem-fraction-static", "0"), ("--mem-fraction-static", "5"), ("--mem-fraction-static", "nan"),
        ("--mem-fraction-static", "most"), ("--max-running-requests", "abc"), ("--max-running-requests", "0"),
        ("--max-total-tokens", "8k"), ("--context-length", "-1"), ("--speculative-num-draft-tokens", "1.5"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_named_with_its_flag(flag, value):
    (found,) = check_numbers(["python", flag, value])
    assert found.what == flag and value in str(found)


def test_usual_values_and_the_last_of_a_repeated_flag_pass():
    assert check_numbers(["--mem-fraction-static", "0.76", "--max-total-tokens=8192"]) == []
    assert check_numbers(["--max-running-requests", "0", "--max-running-requests", "8"]) == []
