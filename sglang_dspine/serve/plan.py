"""The plan as text: which profile, every flag with its reason, the exact command."""

from __future__ import annotations

from collections.abc import Sequence

from .command import Command
from .profile import Flag, Profile


def explain(profile: Profile, flags: Sequence[Flag] = ()) -> list[str]:
    """Lines for a reader."""
    lines = [f"profile {profile.name}: {profile.reason}"]
    lines += [f"  {' '.join(flag.words)}  ({flag.reason})" for flag in (*profile.flags, *flags)]
    return lines


def print_plan(profile: Profile, flags: Sequence[Flag], command: Command, notes: Sequence[str] = ()) -> None:
    """Reasons and notes as comments, then the command on a line of its own: the output can be run by a shell."""
    for line in (part for text in [*explain(profile, flags), *notes] for part in text.splitlines()):
        print(f"# {line}")
    print(command)
