"""One SGLang server: started, and gone at the end with every process it started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from .command import Command
from .failure import ServeError
from .keyfile import hide_key
from .log import ServerLog
from .state import using

SET_PARENT_DEATH_SIGNAL = 1  # prctl(2)
GRACE_S = 15.0
OOM_SCORE = "500"


class Server:
    """A process group of its own, so that a Ctrl-C reaches us alone and the whole group can be ended.

    Should we be killed outright, the kernel ends the server, and SGLang's own processes follow it.
    """

    def __init__(self, command: Command, log: Path) -> None:
        self.command = command
        self.log = ServerLog(log, command.secrets)
        self.key_file = log.with_suffix(".key.yaml")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Server:
        environment = {**self.command.environment, **os.environ}  # what the user has set wins
        try:
            with using(self.key_file.parent):
                words = hide_key(self.command.words, self.key_file)
        except ServeError:
            self._forget_key()
            raise
        try:
            self._process = subprocess.Popen(
                words,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_prepare,
            )
        except OSError as error:
            self._forget_key()
            raise ServeError(f"cannot run {self.command.words[0]}: {error}") from error
        assert self._process.stdout is not None
        self.log.copy(self._process.stdout)
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs; negative: minus the signal that ended it."""
        assert self._process is not None, "not started"
        return self._process.poll()

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Ask, wait, then end the whole group. A KeyboardInterrupt while waiting ends it at once."""
        if self._process is None:
            return
        try:
            if self.exit_status is None:
                self._process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(grace_s)
        finally:
            self._end_group()
            self._forget_key()
            self.log.finish()

    def _forget_key(self) -> None:
        with contextlib.suppress(OSError):
            self.key_file.unlink()

    def _end_group(self, limit_s: float = 10.0) -> None:
        assert self._process is not None
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
            time.sleep(0.05)

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *exception: Any) -> None:
        self.stop()


def _prepare() -> None:
    """Die with the parent; and should memory run out, be ended before the host's own services."""
    ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
