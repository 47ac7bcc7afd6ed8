"""A log gets lines where a terminal gets a bar."""

from io import StringIO

import pytest
from rich.console import Console

from sglang_dspine.cli import phases as module
from sglang_dspine.cli.phases import Phases


@pytest.mark.parametrize(
    ("amounts", "said"),
    [
        ((1, 2, 3, 2), ["copying ...", "copying: 30%", "copying: 80%"]),
        ((1, 2, 3, 4), ["copying ...", "copying: 30%", "copying: 100%"]),
        ((10,), ["copying ..."]),
    ],
    ids=["unfinished", "long", "short"],
)
def test_a_log_gets_a_line_at_the_start_every_ten_seconds_and_at_the_end_of_what_took_longer(
    monkeypatch, amounts, said
):
    out, now = StringIO(), [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with Phases(Console(file=out, force_terminal=False, width=80)).shown() as phases:
        advance = phases.begin("copying", 10)
        for amount, second in zip(amounts, (4.0, 11.0, 15.0, 24.0), strict=False):
            now[0] = second
            advance(amount, now="a tensor")
    assert out.getvalue().splitlines() == said


def test_a_terminal_gets_a_bar():
    out = StringIO()
    with Phases(Console(file=out, force_terminal=True, width=80)).shown() as phases:
        phases.begin("copying", 10)(3, now="a tensor")
    assert "copying" in out.getvalue() and "a tensor" in out.getvalue()
