"""SGLang's output: to a file that only its owner reads, with secrets replaced (SGLang prints all its arguments)."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from .state import using

REPLACED = b"<API_KEY>"
KEPT = 200  # lines in memory, for messages: they must be there when the disk is full


class ServerLog:
    """Copies a stream to `path` on a thread until the stream ends; a log that is there already becomes `path`.1."""

    def __init__(self, path: Path, secrets: Sequence[str] = ()) -> None:
        self.path = path
        self._secrets = [secret.encode() for secret in secrets]
        with using(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                path.replace(path.with_name(path.name + ".1"))  # the message about a crash points to it
            self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)
        self._thread: threading.Thread | None = None
        self._kept: deque[bytes] = deque(maxlen=KEPT)
        self._lock = threading.Lock()  # of _kept
        self._lost, self._told = 0, False  # lines since the last one written; whether stderr has been told

    def copy(self, stream: IO[bytes]) -> None:
        self._thread = threading.Thread(target=self._copy, args=(stream,), daemon=True)
        self._thread.start()

    def _copy(self, stream: IO[bytes]) -> None:
        for line in stream:
            for secret in self._secrets:
                line = line.replace(secret, REPLACED)
            with self._lock:
                self._kept.append(line)
            self._write(line)
        with contextlib.suppress(OSError):
            self._file.close()

    def _write(self, line: bytes) -> None:
        """Never raises: without a reader of its output SGLang would hang as soon as the pipe is full."""
        gap = f"\n[serve.sh: {self._lost} lines could not be written here]\n".encode() if self._lost else b""
        rest = gap + line
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            self._lost = 0
        except OSError as error:
            self._lost += 1
            self._tell(error)

    def _tell(self, error: OSError) -> None:
        if self._told:
            return
        self._told = True
        with contextlib.suppress(OSError, ValueError):  # stderr may be gone, or on the same disk
            print(
                f"serve.sh: the log {self.path} cannot be written: {error.strerror or error}; the server runs on, and "
                "later lines are tried again",
                file=sys.stderr,
                flush=True,
            )

    def finish(self, limit_s: float = 5.0) -> None:
        """Wait for the rest of the output; call it when the writers are gone."""
        if self._thread is not None:
            self._thread.join(limit_s)

    def tail(self, lines: int) -> str:
        """The last lines, at most 200, written or not."""
        with self._lock:
            kept = b"".join(self._kept)
        return "\n".join(kept.decode(errors="replace").splitlines()[-lines:])

    def last_line(self, width: int = 100) -> str:
        """What SGLang last said it does: its own lines begin with a time; its list of all arguments is no news, nor is
        its answer to whoever asks whether it is up."""
        for line in reversed(self.tail(20).splitlines()):
            time, _, said = line.partition("] ")
            if time.startswith("[") and not (said.startswith("server_args=") or '"GET /health' in said):
                return said.strip()[:width]
        return ""
