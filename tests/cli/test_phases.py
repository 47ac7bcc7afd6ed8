"""A log gets lines where a terminal gets a bar."""

from io import StringIO

import pytest
from rich.console import Console

from sglang_dspine.cli import phases as module
from sglang_dspine.cli.phases import Phases


@pytest.mark.parametrize(("terminal", "said"), [(False, ["copying ...", "copying: 30%", "copying: 80%"]), (True, None)])
def test_a_log_gets_a_line_at_the_start_and_every_ten_seconds(monkeypatch, terminal, said):
    now = iter([0.0, 5.0, 11.0, 11.0, 15.0, 22.0, 22.0])
    out = StringIO()
    with Phases(Console(file=out, force_terminal=terminal, width=80)).shown() as phases:
        if not terminal:
            monkeypatch.setattr(module.time, "monotonic", lambda: next(now))
        advance = phases.begin("copying", 10)
        for amount in (1, 2, 3, 2):
            advance(amount, now="a tensor")
    if said is None:
        assert "copying" in out.getvalue() and "a tensor" in out.getvalue()
    else:
        assert out.getvalue().splitlines() == said
