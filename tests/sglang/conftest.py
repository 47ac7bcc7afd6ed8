"""Shown at the end of a run: which check caught each planted fault, and ties, which are listed and never failed."""

from __future__ import annotations

from ..support.oracle import TIES
from ..support.planted import CAUGHT


def pytest_terminal_summary(terminalreporter) -> None:
    if CAUGHT:
        terminalreporter.section("planted fault -> the check that caught it")
    for fault, check in CAUGHT.items():
        terminalreporter.write_line(f"{fault:26s} -> {check}")
    for tie in TIES:
        terminalreporter.write_line(f"tie: {tie}")
