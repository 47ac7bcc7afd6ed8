"""The value a flag has in a command: its last one, as argparse takes it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest


def value_of(words: Sequence[str], flag: str) -> str | None:
    """`--flag value` and `--flag=value`; None when the flag is not there or has no value."""
    value = None
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        if word == flag:
            value = following if following and not following.startswith("--") else None
        elif word.startswith(f"{flag}="):
            value = word.partition("=")[2]
    return value


def number_of(words: Sequence[str], flag: str, usual: float) -> float:
    """`usual` too when the value is no number: SGLang will say so."""
    try:
        return float(value_of(words, flag) or usual)
    except ValueError:
        return usual
