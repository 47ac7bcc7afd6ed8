"""What hangs is named when its time is up (report 30)."""

from __future__ import annotations

import time

import pytest

from sglang_dspine.worker.time_limit import time_limit


@pytest.mark.report(30)
def test_what_takes_too_long_is_named():
    said = []
    with time_limit("capturing the draft graph of batch 7, width 8", 0.01, lambda *what: said.append(what)):
        time.sleep(0.2)
    assert said == [("capturing the draft graph of batch 7, width 8", 0.01)]


def test_what_ends_in_time_is_left_alone():
    said = []
    with time_limit("a capture", 0.1, lambda *what: said.append(what)):
        pass
    time.sleep(0.2)
    assert said == []
