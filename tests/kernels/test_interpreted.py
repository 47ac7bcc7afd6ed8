"""Runs every `interpreted.py` below this folder under Triton's interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..support.interpreted import facts_of, run_interpreted

FILES = sorted(Path(__file__).parent.glob("*/interpreted.py"))
FACTS = [f"{file.parent.name}.{test}" for file in FILES for test in facts_of(file)]
pytestmark = pytest.mark.xdist_group("interpreted kernels")  # one run has all outcomes


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """kernel.test name -> texts of its failures, of every case that ran."""
    pytest.importorskip("triton")
    found: dict[str, list[str]] = {}
    for case in run_interpreted(FILES, tmp_path_factory.mktemp("interpreter")):
        found.setdefault(f"{case.module.split('.')[-2]}.{case.test}", []).extend(case.failures)
    return found


@pytest.mark.parametrize("fact", FACTS)
def test_interpreted(outcomes, fact):
    assert fact in outcomes, "did not run"
    assert not outcomes[fact], "\n".join(outcomes[fact])
