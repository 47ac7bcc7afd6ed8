"""A small file per port that says who serves there, for `--status` and `--stop`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from .failure import ServeError
from .state import using


@dataclass(frozen=True)
class Record:
    """The process of `serve.sh` that supervises SGLang; `born` tells it from a later process of the same id."""

    pid: int
    born: str  # clock ticks since boot, as /proc says
    url: str
    what: str
    log: str
    command: str = ""  # as printed, secrets hidden

    @property
    def alive(self) -> bool:
        return birth(self.pid) == self.born


def birth(pid: int) -> str | None:
    """Start time of a process, None when there is none (or only a zombie)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def record_path(state: Path, port: int) -> Path:
    return state / f"{port}.json"


def log_path(state: Path, port: int) -> Path:
    return state / f"{port}.log"


def find_record(state: Path, port: int) -> Record | None:
    """Who serves on `port`; a record that is empty, or whose process is gone, is removed."""
    path = record_path(state, port)
    try:
        with using(state):
            try:
                text = path.read_text()
            except FileNotFoundError:
                return None
            if not text.strip():
                path.unlink(missing_ok=True)
                print(f"serve.sh: removed {path}: an empty record, of a start that found no room", file=sys.stderr)
                return None
        record = Record(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise ServeError(f"{path}: not a record of serve.sh ({error}); delete it") from None
    if not record.alive:
        path.unlink(missing_ok=True)
        return None
    return record


@contextlib.contextmanager
def recorded(state: Path, port: int, url: str, what: str, command: str = "") -> Iterator[None]:
    """This process serves `what` on `port` for the duration of the block. Raises ServeError where `state` cannot be
    written."""
    path = record_path(state, port)
    record = Record(os.getpid(), birth(os.getpid()) or "", url, what, str(log_path(state, port)), command)
    with using(state):
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(path, json.dumps(asdict(record), indent=1) + "\n")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _write_whole(path: Path, text: str) -> None:
    """All of `text` or nothing: a disk may be full in the middle."""
    new = path.with_name(path.name + ".new")
    try:
        new.write_text(text)
        new.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise


def stop_recorded(record: Record, limit_s: float = 60.0) -> None:
    """End the supervisor, which ends SGLang first. Raises ServeError when it is still there after the limit."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(record.pid, signal.SIGTERM)
    end = time.monotonic() + limit_s
    while record.alive:
        if time.monotonic() > end:
            raise ServeError(f"process {record.pid} still runs after {limit_s:.0f} s; end it: kill -9 {record.pid}")
        time.sleep(0.1)
