"""`--status`, `--stop` and `--logs`: what serves on PORT, natively or in Docker."""

from __future__ import annotations

import http.client
import subprocess
import sys
import time
import urllib.error
import urllib.request

from .docker_plan import container_name, key_path
from .engine import GRACE_S, Engine, find_engine
from .port import listener
from .record import Record, find_record, log_path, stop_recorded
from .settings import Settings

STOPPED = 3  # exit status of a service manager for a service that does not run
STARTING, SILENT = 4, 5  # ours: there, but nobody is served
OF_HEALTH = {"starting": STARTING, "unhealthy": SILENT}  # Docker's words
HEALTH_S = 5.0
LINES = 200


def status(settings: Settings) -> int:
    """Exit status 0 when a healthy server is on PORT, 4 while it starts, 5 when it does not answer, 3 without one."""
    record, engine = _who(settings)
    if record is not None:
        health, code = _health(record.url)
        print(f"{record.what} at {record.url}, process {record.pid} ({health}), log in {record.log}")
        return code
    container = engine.find(container_name(settings)) if engine else None
    if container is not None and container.running:
        what = container.what or "a server"
        print(f"{what} at {settings.url}, container {container.name} ({container.health or container.status})")
        return OF_HEALTH.get(container.health or "", 0)
    print(_nothing(settings))
    return STOPPED


def _health(url: str) -> tuple[str, int]:
    """What `url`/health says within seconds, and the exit status for it. While SGLang loads, it does not listen; then
    it answers 503 until it is warm; when it hangs, it takes connections and says nothing."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/health", timeout=HEALTH_S):
            return "healthy", 0
    except urllib.error.HTTPError as error:
        if error.code == http.client.SERVICE_UNAVAILABLE:
            return "starting", STARTING
        return f"does not answer: /health says {error.code}", SILENT
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, ConnectionRefusedError):
            return "starting", STARTING
        return f"does not answer: /health: {reason}; ./serve.sh --logs, --restart", SILENT


def stop(settings: Settings) -> int:
    record, engine = _who(settings)
    if record is not None:
        print(f"stopping {record.what} at {record.url}, process {record.pid}", flush=True)
        began = time.monotonic()
        stop_recorded(record)
        print(f"stopped {record.what} at {record.url} after {time.monotonic() - began:.0f} s")
        return 0
    container = engine.find(container_name(settings)) if engine else None
    if engine is not None and container is not None:
        print(f"stopping {container.what or 'a server'}, container {container.name}; at most {GRACE_S} s", flush=True)
        engine.remove(container.name)
        key_path(settings).unlink(missing_ok=True)
        print(f"stopped {container.what or 'a server'}, container {container.name} is removed")
        return 0
    print(_nothing(settings))
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


def _nothing(settings: Settings) -> str:
    """Another program on the port is named, and never touched: it is not ours."""
    other = listener(settings.port)
    if other is None:
        return f"nothing is served on port {settings.port}"
    return (
        f"nothing of serve.sh is served on port {settings.port}, but {other} listens there; PORT= serves beside it; "
        f"if it is SGLang, sglang-dspine doctor --url {settings.url} looks at it"
    )


def _who(settings: Settings) -> tuple[Record | None, Engine | None]:
    return find_record(settings.state, settings.port), find_engine()
