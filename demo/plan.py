"""The two servers of the demo: the pair with DSPINE, and its target alone. Standard library only."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sglang_dspine.serve.command import Command, launch_command, speculation, without_speculation
from sglang_dspine.serve.hardware import find_gpu
from sglang_dspine.serve.profile import Flag, Profile, choose_profile
from sglang_dspine.serve.settings import Settings

TARGET, DRAFT = (str(Path(__file__).parent / part) for part in ("target", "draft"))
ROOM = "the demo's share of memory: two small servers at once"
NO_SPACES = Flag("--constrained-json-disable-any-whitespace", None, "between JSON's marks a tiny model never stops")
CPU_POOLS = (
    NO_SPACES,
    Flag("--max-total-tokens", "8192", ROOM),
    Flag("--max-running-requests", "8", ROOM),
    Flag("--max-mamba-cache-size", "32", ROOM),
)
GPU_POOLS = (
    NO_SPACES,
    Flag("--max-total-tokens", "32768", ROOM),
    Flag("--max-running-requests", "32", ROOM),
    Flag("--mem-fraction-static", "0.1", ROOM),
    Flag("--cuda-graph-max-bs-decode", "32", "up in less time"),
    Flag("--cuda-graph-backend-prefill", "disabled", "up in less time"),
)
OFFLINE = {"HF_HUB_OFFLINE": "1"}  # everything the demo reads lies in this folder


def profile() -> tuple[Profile, bool]:
    """The demo's profile, and whether there is a GPU: there SGLang's own defaults, in small pools."""
    gpu = find_gpu()
    chosen = choose_profile(gpu, recurrent=True)
    if gpu is None:
        return replace(chosen, flags=chosen.flags + CPU_POOLS, environment=chosen.environment | OFFLINE), False
    return Profile("demo", str(gpu), GPU_POOLS, OFFLINE), True


def dspine_command(settings: Settings, chosen: Profile, extra: Sequence[str]) -> Command:
    return launch_command(settings, TARGET, chosen, speculation(DRAFT), extra)


def plain_command(settings: Settings, chosen: Profile, port: int, extra: Sequence[str]) -> Command:
    """The same target and flags without speculation, on the loopback interface."""
    alone = replace(settings, host="127.0.0.1", port=port)
    return launch_command(alone, TARGET, chosen, extra=without_speculation(extra))
