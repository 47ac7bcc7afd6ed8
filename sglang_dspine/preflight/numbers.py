"""Numbers that follow `--`, before a budget is reckoned with them or SGLang loads weights to refuse them."""

from __future__ import annotations

from collections.abc import Sequence

from .finding import FAIL, Finding
from .words import value_of

WHOLE = ("--max-running-requests", "--max-total-tokens", "--context-length", "--speculative-num-draft-tokens")
SHARE = "--mem-fraction-static"


def check_numbers(words: Sequence[str]) -> list[Finding]:
    """A failure for each value that no server could start with; the last of a repeated flag counts."""
    found = []
    for flag in WHOLE:
        value = value_of(words, flag)
        if value is not None and not (value.isdecimal() and int(value) > 0):
            found.append(Finding(FAIL, flag, f"found {value}", "pass a whole number above 0"))
    share = value_of(words, SHARE)
    if share is not None and not _is_share(share):
        found.append(Finding(FAIL, SHARE, f"found {share}", "pass a number between 0 and 1"))
    return found


def _is_share(text: str) -> bool:
    try:
        return 0 < float(text) < 1
    except ValueError:
        return False
