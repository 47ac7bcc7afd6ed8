"""The plan of `MODEL=/path [DRAFT=/path] ./serve.sh --native`: an installed SGLang, with the flags of this GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..preflight.gpu import Memory, find_memory
from ..preflight.model import Target, read_target
from ..preflight.words import value_of
from .command import DRAFTER, Command, launch_command, refuse_taken, speculation
from .failure import ServeError
from .hardware import Gpu, find_gpu
from .jobs import compile_jobs
from .profile import LAZY_CACHE, NO_OVERLAP, Flag, Profile, choose_profile
from .settings import Settings
from .target import is_recurrent

DRAFT = "tencent/Qwen3.8-27B-DSpine-b16"
OBSERVED = Flag("--enable-metrics", None, "for Prometheus, at /metrics")


@dataclass(frozen=True)
class Plan:
    """What would be run, and what was found out to decide it."""

    gpu: Gpu | None
    driver: str | None
    memory: Memory
    target: Target
    draft: str
    profile: Profile
    flags: tuple[Flag, ...]
    command: Command


def plan(settings: Settings, extra: Sequence[str]) -> Plan:
    """Raises ServeError without a target, or with one that has no readable config.json."""
    if settings.model is None:
        raise ServeError("MODEL is not set; expected the target's folder: MODEL=/path ./serve.sh")
    folder = Path(settings.model)
    recurrent = is_recurrent(folder)
    try:
        target = read_target(folder)
    except (KeyError, TypeError, ValueError) as error:
        raise ServeError(f"MODEL={folder}: config.json lacks what SGLang would need ({error!r})") from None
    gpu = find_gpu()
    memory, driver = find_memory(None if gpu is None else gpu.capability)
    profile = choose_profile(gpu, recurrent)
    if gpu is not None:
        jobs = {"MAX_JOBS": str(compile_jobs(memory))}
        profile = replace(profile, environment=profile.environment | jobs)
    if value_of(extra, LAZY_CACHE.name) == LAZY_CACHE.value:  # SGLang's works beside the overlap schedule alone
        profile = replace(profile, flags=tuple(flag for flag in profile.flags if flag != NO_OVERLAP))
    refuse_taken(extra, DRAFTER)
    draft = settings.draft or DRAFT
    flags = (*speculation(draft), OBSERVED)
    command = launch_command(settings, settings.model, profile, flags, extra)
    return Plan(gpu, driver, memory, target, draft, profile, flags, command)
