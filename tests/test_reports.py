"""Every fault that users reported has a test that carries its number: `@pytest.mark.report(n)`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TABLE = TESTS.parent / "docs" / "reports.md"
MARK = re.compile(r"pytest\.mark\.report\(([\d, ]+)\)")


def marked() -> dict[int, set[str]]:
    """Report -> the test files that carry its number."""
    found: dict[int, set[str]] = {}
    for path in TESTS.rglob("*.py"):
        for numbers in MARK.findall(path.read_text()):
            for number in re.findall(r"\d+", numbers):
                found.setdefault(int(number), set()).add(path.relative_to(TESTS.parent).as_posix())
    return found


def listed() -> dict[int, str]:
    """Report -> the last cell of its row in the table."""
    rows = re.findall(r"^\| (\d+) \|.*\| (.*) \|$", TABLE.read_text(), re.MULTILINE)
    return {int(number): cell for number, cell in rows}


@pytest.mark.parametrize("number", sorted(listed()))
def test_a_report_of_the_table_is_answered_by_the_tests_it_names(number):
    named = set(re.findall(r"`(tests/[^`]+)`", listed()[number]))
    assert named, "the row names no test"
    assert named <= marked().get(number, set()), f"tests that carry the number: {marked().get(number)}"


def test_no_test_carries_a_number_that_is_not_in_the_table():
    assert marked().keys() <= listed().keys()
