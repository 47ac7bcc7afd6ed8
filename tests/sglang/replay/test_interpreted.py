"""Runs `interpreted.py` under Triton's interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from ...support.interpreted import facts_of, run_interpreted

FILE = Path(__file__).with_name("interpreted.py")
FACTS = facts_of(FILE)

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Test name -> texts of its failures, of every case that ran."""
    pytest.importorskip("triton")
    found: dict[str, list[str]] = {}
    for case in run_interpreted([FILE], tmp_path_factory.mktemp("interpreter"), limit=1500):
        found.setdefault(case.test, []).extend(case.failures)
    return found


@pytest.mark.parametrize("fact", FACTS)
def test_interpreted(outcomes, fact):
    assert fact in outcomes, "did not run"
    assert not outcomes[fact], "\n".join(outcomes[fact])
