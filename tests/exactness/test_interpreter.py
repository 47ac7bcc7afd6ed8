"""Runs `interpreted_kernels.py` under Triton's interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..support.interpreted import facts_of, outcomes_of

FILE = Path(__file__).with_name("interpreted_kernels.py")
FACTS = facts_of(FILE)

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("interpreted acceptor")]  # one run has all outcomes


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Test name -> texts of its failures, of every case that ran."""
    pytest.importorskip("triton")
    pytest.importorskip("sglang")
    return outcomes_of([FILE], tmp_path_factory.mktemp("interpreter"))


@pytest.mark.parametrize("fact", FACTS)
def test_interpreted(outcomes, fact):
    assert fact in outcomes, "did not run"
    assert not outcomes[fact], "\n".join(outcomes[fact])
