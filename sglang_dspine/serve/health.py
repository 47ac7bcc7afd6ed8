"""Wait until a server is healthy, and say so meanwhile."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import httpx

from .failure import ServeError, next_step, refusal
from .server import Server

POLL_S = 0.5
DEATH_LINES = 200


def wait_healthy(
    server: Server,
    url: str,
    limit_s: float,
    report: Callable[[float, str], None] = lambda seconds, line: None,
    watch: Callable[[], None] | None = None,
) -> float:
    """Seconds until `url`/health answers 200. At each poll `report` is called with seconds and SGLang's last line, and
    `watch`, which may raise.

    Raises ServeError, with the end of the log, when the server dies or the limit passes.
    """
    began = time.monotonic()
    with httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
        while (seconds := time.monotonic() - began) < limit_s:
            if server.exit_status is not None:
                raise died(server)
            if _is_healthy(client):
                return time.monotonic() - began
            if watch is not None:
                watch()
            report(seconds, server.log.last_line())
            time.sleep(POLL_S)
    raise ServeError(
        f"not healthy after {limit_s:.0f} s; START_LIMIT=SECONDS allows more. Full log: {server.log.path}",
        server.log.tail(DEATH_LINES),
    )


def died(server: Server) -> ServeError:
    """The error for a server that ended by itself."""
    server.log.finish(1.0)
    status, tail = server.exit_status, server.log.tail(DEATH_LINES)
    if refused := refusal(status, tail):
        return refused
    how = f"by signal {-status}" if status is not None and status < 0 else f"with status {status}"
    told = f"SGLang ended {how}: {next_step(status == -signal.SIGKILL)}. Full log: {server.log.path}"
    return ServeError(told, tail)


def _is_healthy(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.HTTPError:
        return False
