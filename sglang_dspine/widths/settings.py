"""What a server is told about widths: environment variables, since a plugin can add no flag."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import FlagError

POLICIES = ("fixed", "table", "adaptive")


@dataclass(frozen=True)
class WidthSettings:
    """DSPINE_WIDTH_POLICY and DSPINE_WIDTHS."""

    policy: str = "table"
    chosen: bool = False  # the policy was asked for, and is not just the default
    extra: tuple[int, ...] = ()  # widths captured for every batch size: candidates of `adaptive`, and of the tuner

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None) -> WidthSettings:
        """Raises FlagError for a word that is none of the policies, or a width that is no number from 1 up."""
        env = os.environ if environment is None else environment
        policy = env.get("DSPINE_WIDTH_POLICY", "")
        if policy and policy not in POLICIES:
            raise FlagError(f"DSPINE_WIDTH_POLICY={policy}: expected one of {', '.join(POLICIES)}")
        return cls(policy or "table", bool(policy), parse_widths(env.get("DSPINE_WIDTHS", "")))


def parse_widths(text: str) -> tuple[int, ...]:
    """`"1,8,16"` -> (1, 8, 16), ascending."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if not word.isdecimal() or int(word) < 1:
            raise FlagError(f"DSPINE_WIDTHS={text}: {word!r} is no width; expected whole numbers from 1, as in 1,8,16")
    return tuple(sorted({int(word) for word in words}))
