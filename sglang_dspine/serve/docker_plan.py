"""The exact `docker run` of a planned server."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .command import Command
from .engine import PLAN, WHAT
from .mounts import read_only
from .native import Plan, plan
from .settings import Settings

IMAGE = "sglang-dspine:0.5.23"
PORT = 30000  # inside
CACHE = "/cache"  # inside: HOME, so that every kernel cache of SGLang, Triton, FlashInfer and torch lands there
HUB = ".cache/huggingface"  # below it
KEY = "/run/secrets/dspine_api_key"
HEALTH = f"curl -fsS -m 5 http://127.0.0.1:{PORT}/health"
PASSED = ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_ENDPOINT", "DSPINE_WIDTH_POLICY", "DSPINE_WIDTHS", "DSPINE_SPS_TABLE")


def container_name(settings: Settings) -> str:
    return f"sglang-dspine-{settings.port}"


def key_path(settings: Settings) -> Path:
    return settings.state / f"{settings.port}.key"


def image_of(settings: Settings) -> str:
    return settings.image or IMAGE


def docker_command(settings: Settings, extra: Sequence[str]) -> Command:
    """Words of `docker run`; SGLang's arguments, the user's last, behind the image."""
    inside = plan(replace(settings, host="0.0.0.0", port=PORT, api_key=None, python="python3"), extra)
    server = inside.command
    words = ["docker", "run", "--detach", "--init", "--name", container_name(settings), *_gpus(), *_limits(settings)]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    words += ["--publish", f"{host}:{settings.port}:{PORT}", *_health(settings)]
    words += _volumes(settings, inside)
    for name, value in {**server.environment, "HOME": CACHE, "USER": "dspine", "LOGNAME": "dspine"}.items():
        words += ["--env", f"{name}={os.environ.get(name, value) if name in server.environment else value}"]
    for name in PASSED:
        if os.environ.get(name):
            words += ["--env", name]  # by name alone: a token's value stays out of the command
    words += ["--label", f"{WHAT}={settings.model}"]
    arguments = server.words[3:]  # after: python3 -m sglang.launch_server
    rest = [image_of(settings), "run", *arguments]
    mark = hashlib.sha256("\0".join([*words, *rest]).encode()).hexdigest()[:16]
    return Command([*words, "--label", f"{PLAN}={mark}", *rest])


def plan_mark(command: Command) -> str:
    """Equal for two starts with the same settings."""
    return next(word.partition("=")[2] for word in command.words if word.startswith(f"{PLAN}="))


def _gpus() -> list[str]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return [
        "--gpus",
        f'"device={visible}"' if visible and "," in visible else f"device={visible}" if visible else "all",
    ]


def _limits(settings: Settings) -> list[str]:
    """Shared memory for SGLang's processes; pinned memory; and should memory run out, this process goes first."""
    words = ["--shm-size", "16g", "--ulimit", "memlock=-1", "--ulimit", "stack=67108864", "--oom-score-adj", "500"]
    return [*words, "--security-opt", "no-new-privileges", "--user", f"{os.getuid()}:{os.getgid()}"]


def _health(settings: Settings) -> list[str]:
    start = f"{settings.start_limit_s:.0f}s"
    return ["--health-cmd", HEALTH, "--health-interval", "5s", "--health-start-period", start, "--health-retries", "6"]


def _volumes(settings: Settings, planned: Plan) -> list[str]:
    folders = [planned.target.folder]
    if Path(planned.draft).is_dir():
        folders.append(Path(planned.draft))
    if table := os.environ.get("DSPINE_SPS_TABLE"):
        folders.append(Path(table).absolute().parent)
    words = [*read_only(*folders), "--volume", f"{settings.cache}:{CACHE}"]
    hub = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    if not Path(planned.draft).is_dir() and hub.is_dir():
        words += ["--volume", f"{hub}:{CACHE}/{HUB}"]
    if settings.api_key:
        words += ["--volume", f"{key_path(settings)}:{KEY}:ro"]
    return words
