"""Ties met on the way are shown, never failed."""

from __future__ import annotations

from ..support.oracle import TIES


def pytest_terminal_summary(terminalreporter) -> None:
    for tie in TIES:
        terminalreporter.write_line(f"tie: {tie}")
