"""SGLang's router, started as docker/compose.replicas.yaml starts it, in front of replicas on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import yaml

from .http_server import free_port

COMPOSE = yaml.safe_load((Path(__file__).resolve().parents[2] / "docker" / "compose.replicas.yaml").read_text())


def arguments(port: int, replicas: list[str], **changed: int) -> list[str]:
    """The compose file's, with this machine's addresses; `changed` sets flags by name."""
    given = COMPOSE["services"]["router"]["command"]
    flags = dict(word[2:].split("=") for word in given if "=" in word)
    flags |= {"host": "127.0.0.1", "port": port, "prometheus-host": "127.0.0.1", "prometheus-port": free_port()}
    flags |= {name.replace("_", "-"): value for name, value in changed.items()}
    return [*(f"--{name}={value}" for name, value in flags.items()), "--worker-urls", *replicas]


class Router:
    """Context manager; `client` talks to it."""

    def __init__(self, replicas: list[str], timeout_s: float = 240, **changed: int) -> None:
        self.replicas, self.timeout_s = replicas, timeout_s
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self.command = [sys.executable, "-m", "sglang_router.launch_router", *arguments(port, replicas, **changed)]
        self.log = Path(tempfile.mkstemp(prefix="router-", suffix=".log")[1])

    def __enter__(self) -> Router:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, start_new_session=True)
        self.client = httpx.Client(base_url=self.url, timeout=self.timeout_s, trust_env=False)
        try:
            self.wait_for(len(self.replicas))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.client.close()
        self.log.unlink()

    def workers(self) -> list[dict[str, Any]]:
        return self.client.get("/workers").json()["workers"]

    def wait_for(self, healthy: int) -> None:
        """Until exactly so many replicas are known and healthy."""
        end, found = time.monotonic() + self.timeout_s, None
        while time.monotonic() < end:
            with contextlib.suppress(httpx.TransportError):
                found = sum(worker["is_healthy"] for worker in self.workers())
                if found == healthy:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.3)
        raise TimeoutError(f"{found} healthy replicas, expected {healthy}:\n{self.log.read_text()[-3000:]}")

    def drain(self, replica: str) -> None:
        """No new request goes to `replica`."""
        (found,) = [worker["id"] for worker in self.workers() if worker["url"] == replica]
        self.client.delete(f"/workers/{found}").raise_for_status()
        self.wait_for(len(self.replicas) - 1)

    def add(self, replica: str) -> None:
        self.client.post("/workers", json={"url": replica}).raise_for_status()
        self.wait_for(len(self.replicas))
