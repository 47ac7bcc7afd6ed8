"""An endpoint from start to stop, in the foreground."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType

from rich.console import Console

from .command import Command
from .health import died, wait_healthy
from .port import require_free
from .progress import say, waiting
from .record import log_path, recorded
from .server import GRACE_S, Server
from .settings import Settings


@contextlib.contextmanager
def endpoint(
    settings: Settings, command: Command, what: str, console: Console, watch: Callable[[], None] | None = None
) -> Iterator[Server]:
    """A healthy server of `what` for the duration of the block. Raises ServeError when there is none to be had.

    watch: called while waiting; what it raises ends the start.
    """
    require_free(settings.host, settings.port, settings.state)
    log = log_path(settings.state, settings.port)
    record = recorded(settings.state, settings.port, settings.url, what, str(command))
    with record, Server(command, log) as server:
        say(console, f"starting {what}, log in {log}")
        try:
            with waiting(console, f"waiting for {settings.url}/health") as report:
                seconds = wait_healthy(server, settings.url, settings.start_limit_s, report, watch)
            say(console, f"healthy after {seconds:.0f} s")
            yield server
        finally:
            stop(server, what, settings.url, console)


def stop(server: Server, what: str, url: str, console: Console) -> None:
    """End a server that still runs, and say so before and after: it takes seconds, in which a user would wonder."""
    if server.exit_status is not None:
        return
    say(console, f"stopping {what} at {url}, process {server.pid} and its own; at most {GRACE_S:.0f} s")
    began = time.monotonic()
    server.stop()
    say(console, f"stopped after {time.monotonic() - began:.0f} s")


def hold(server: Server, console: Console, announcement: str) -> None:
    """Announce, and return when interrupted. Raises ServeError when the server ends by itself."""
    with contextlib.suppress(KeyboardInterrupt):
        say(console, announcement)
        while server.exit_status is None:
            time.sleep(0.2)
        raise died(server)


def stop_on_signals() -> None:
    """Let SIGTERM and a closed terminal unwind this process as Ctrl-C does, so that servers are stopped."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
