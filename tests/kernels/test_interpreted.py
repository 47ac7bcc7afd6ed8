"""Runs every `interpreted.py` below this folder under Triton's interpreter, in one process of its own.

Triton decides about its interpreter when it is first imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

FILES = sorted(Path(__file__).parent.glob("*/interpreted.py"))
FACTS = [
    f"{file.parent.name}.{line.split('(')[0][4:]}"
    for file in FILES
    for line in file.read_text().splitlines()
    if line.startswith("def test_")
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """kernel.test name -> texts of its failures, of every case that ran."""
    pytest.importorskip("triton")
    log = tmp_path_factory.mktemp("interpreter") / "junit.xml"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *map(str, FILES), f"--junitxml={log}", "-p", "no:cacheprovider", "-m", ""],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert log.exists(), run.stdout + run.stderr
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(log).iter("testcase"):
        kernel = case.get("classname", "").split(".")[-2]
        bad = [child.get("message", "") + (child.text or "") for child in case if child.tag in ("failure", "error")]
        found.setdefault(f"{kernel}.{case.get('name', '').split('[')[0]}", []).extend(bad)
    assert found, run.stdout + run.stderr
    return found


@pytest.mark.parametrize("fact", FACTS)
def test_interpreted(outcomes, fact):
    assert fact in outcomes, "did not run"
    assert not outcomes[fact], "\n".join(outcomes[fact])
