"""Why a server ended, in its own words."""

from __future__ import annotations

import signal

from sglang_dspine.errors import FlagError
from sglang_dspine.serve.failure import refusal

KILLED = -signal.SIGKILL


def test_a_refusal_of_this_package_is_told_as_it_was_said():
    error = FlagError("--pp-size 2: pass 1")
    log = f"""[12:00] loading
Traceback (most recent call last):
  File "x.py", line 1, in <module>
{type(error).__module__}.{type(error).__qualname__}: {error}

[12:01] Received sigquit from a child process. It usually means the child failed."""
    assert str(refusal(KILLED, log)).endswith("refuses what it was given: --pp-size 2: pass 1")


def test_arguments_that_sglang_refuses_are_told_without_its_usage():
    said = "usage: launch_server [-h]\nlaunch_server.py: error: unrecognized arguments: --bogus"
    assert "unrecognized arguments: --bogus; correct what follows --" in str(refusal(2, said))
    assert refusal(1, said) is None


def test_another_end_is_no_refusal():
    assert refusal(KILLED, "ValueError: sglang_dspine.errors.FlagError: quoted") is None
    assert refusal(KILLED, "") is None
