"""Runs `interpreted_kernels.py` under Triton's interpreter, in one process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("interpreted_kernels.py")
FACTS = [line.split("(")[0][4:] for line in FILE.read_text().splitlines() if line.startswith("def test_")]

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Test name -> texts of its failures, of every case that ran."""
    pytest.importorskip("triton")
    pytest.importorskip("sglang")
    log = tmp_path_factory.mktemp("interpreter") / "junit.xml"
    command = [sys.executable, "-m", "pytest", str(FILE), f"--junitxml={log}", "-p", "no:cacheprovider"]
    run = subprocess.run(
        command,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        cwd=FILE.parents[2],
        check=False,
    )
    assert log.exists(), run.stdout + run.stderr
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(log).iter("testcase"):
        bad = [child.get("message", "") + (child.text or "") for child in case if child.tag in ("failure", "error")]
        found.setdefault(case.get("name", "").split("[")[0], []).extend(bad)
    assert found, run.stdout + run.stderr
    return found


@pytest.mark.parametrize("fact", FACTS)
def test_interpreted(outcomes, fact):
    assert fact in outcomes, "did not run"
    assert not outcomes[fact], "\n".join(outcomes[fact])
