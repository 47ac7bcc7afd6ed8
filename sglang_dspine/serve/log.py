"""SGLang's output: to a file that only its owner reads, with secrets replaced (SGLang prints all its arguments)."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

REPLACED = b"<API_KEY>"


class ServerLog:
    """Copies a stream to `path` on a thread until the stream ends."""

    def __init__(self, path: Path, secrets: Sequence[str] = ()) -> None:
        self.path = path
        self._secrets = [secret.encode() for secret in secrets]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)
        self._thread: threading.Thread | None = None

    def copy(self, stream: IO[bytes]) -> None:
        self._thread = threading.Thread(target=self._copy, args=(stream,), daemon=True)
        self._thread.start()

    def _copy(self, stream: IO[bytes]) -> None:
        with self._file:
            for line in stream:
                for secret in self._secrets:
                    line = line.replace(secret, REPLACED)
                self._file.write(line)

    def finish(self, limit_s: float = 5.0) -> None:
        """Wait for the rest of the output; call it when the writers are gone."""
        if self._thread is not None:
            self._thread.join(limit_s)

    def tail(self, lines: int) -> str:
        return "\n".join(self.path.read_text(errors="replace").splitlines()[-lines:])

    def last_line(self, width: int = 100) -> str:
        """What SGLang last said it does: its own lines begin with a time; its list of all arguments is no news, nor is
        its answer to whoever asks whether it is up."""
        for line in reversed(self.tail(20).splitlines()):
            time, _, said = line.partition("] ")
            if time.startswith("[") and not (said.startswith("server_args=") or '"GET /health' in said):
                return said.strip()[:width]
        return ""
