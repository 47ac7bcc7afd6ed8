"""Waiting, as a log file sees it."""

from __future__ import annotations

import io

from rich.console import Console

from sglang_dspine.serve.progress import waiting


def test_what_the_server_said_is_shown_once_and_the_seconds_go_on():
    out = io.StringIO()
    with waiting(Console(file=out), "waiting for it") as report:
        for seconds in range(0, 65):
            report(seconds, "loading weights" if seconds < 45 else "capturing")
    assert out.getvalue().splitlines() == [
        "waiting for it 10 s  loading weights",
        *(f"waiting for it {seconds} s" for seconds in (20, 30, 40)),
        "waiting for it 50 s  capturing",
        "waiting for it 60 s",
    ]
