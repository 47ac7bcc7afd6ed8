"""Tests of Triton kernels under its interpreter: Triton decides about that when it is first imported, so they run in a
process of their own, and their outcomes come back one by one."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Case:
    """One case of one test."""

    module: str  # dotted
    test: str
    failures: tuple[str, ...]


def facts_of(file: Path) -> list[str]:
    return [line.split("(")[0][4:] for line in file.read_text().splitlines() if line.startswith("def test_")]


def outcomes_of(files: Sequence[Path], folder: Path, limit: float = 600) -> dict[str, list[str]]:
    """Test name -> texts of its failures, of every case that ran."""
    found: dict[str, list[str]] = {}
    for case in run_interpreted(files, folder, limit):
        found.setdefault(case.test, []).extend(case.failures)
    return found


def run_interpreted(files: Sequence[Path], folder: Path, limit: float = 600) -> Iterator[Case]:
    """Every case of these files; `folder` takes the log. limit: seconds."""
    log = folder / "junit.xml"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *map(str, files), f"--junitxml={log}", "-p", "no:cacheprovider", "-m", ""],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=limit,
        cwd=ROOT,
        check=False,
    )
    assert log.exists(), run.stdout + run.stderr
    cases = list(ElementTree.parse(log).iter("testcase"))
    assert cases, run.stdout + run.stderr
    for case in cases:
        bad = [child.get("message", "") + (child.text or "") for child in case if child.tag in ("failure", "error")]
        yield Case(case.get("classname", ""), case.get("name", "").split("[")[0], tuple(bad))
