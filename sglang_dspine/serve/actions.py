"""`--status`, `--stop` and `--logs`: what serves on PORT, natively or in Docker."""

from __future__ import annotations

import subprocess
import sys

from .docker_plan import container_name, key_path
from .engine import Engine, find_engine
from .record import Record, find_record, log_path, stop_recorded
from .settings import Settings

STOPPED = 3  # exit status of a service manager for a service that does not run
LINES = 200


def status(settings: Settings) -> int:
    """Exit status 0 when something is served on PORT, else 3."""
    record, engine = _who(settings)
    if record is not None:
        print(f"{record.what} at {record.url}, process {record.pid}, log in {record.log}")
        return 0
    container = engine.find(container_name(settings)) if engine else None
    if container is not None and container.running:
        what = container.what or "a server"
        print(f"{what} at {settings.url}, container {container.name} ({container.health or container.status})")
        return 0
    print(f"nothing is served on port {settings.port}")
    return STOPPED


def stop(settings: Settings) -> int:
    record, engine = _who(settings)
    if record is not None:
        stop_recorded(record)
        print(f"stopped {record.what} at {record.url}")
        return 0
    container = engine.find(container_name(settings)) if engine else None
    if engine is not None and container is not None:
        engine.remove(container.name)
        key_path(settings).unlink(missing_ok=True)
        print(f"stopped {container.what or 'a server'}, container {container.name} is removed")
        return 0
    print(f"nothing is served on port {settings.port}")
    return 0


def logs(settings: Settings) -> int:
    """The last 200 lines, and on a terminal those that follow. Also of a server that is gone, while its log is kept."""
    record, engine = _who(settings)
    follow = ["--follow"] if sys.stdout.isatty() else []
    container = engine.find(container_name(settings)) if engine and record is None else None
    path = log_path(settings.state, settings.port)
    if engine is not None and container is not None:
        words = [engine.tool, "logs", "--tail", str(LINES), *follow, container.name]
    elif path.is_file():
        words = ["tail", "-n", str(LINES), *follow, str(path)]
    else:
        print(f"no log of a server on port {settings.port} in {settings.state}")
        return STOPPED
    return subprocess.run(words, stderr=subprocess.STDOUT).returncode


def _who(settings: Settings) -> tuple[Record | None, Engine | None]:
    return find_record(settings.state, settings.port), find_engine()
