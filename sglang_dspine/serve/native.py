"""The plan of `MODEL=/path [DRAFT=/path] ./serve.sh --native`: an installed SGLang, with the flags of this GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .command import Command, launch_command, speculation
from .failure import ServeError
from .hardware import find_gpu
from .profile import Flag, Profile, choose_profile
from .settings import Settings
from .target import is_recurrent

DRAFT = "tencent/Qwen3.8-27B-DSpine-b16"


def plan(settings: Settings, extra: Sequence[str]) -> tuple[Profile, tuple[Flag, ...], Command]:
    """What would be run. Raises ServeError without a target."""
    if settings.model is None:
        raise ServeError("MODEL is not set; expected the target's folder: MODEL=/path ./serve.sh --native")
    profile = choose_profile(find_gpu(), is_recurrent(Path(settings.model)))
    flags = speculation(settings.draft or DRAFT)
    return profile, flags, launch_command(settings, settings.model, profile, flags, extra)
