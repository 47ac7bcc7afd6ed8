"""Several SGLang servers on one GPU at once, each with a small pool."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SMALL = [
    "--mem-fraction-static", "0.1", "--max-total-tokens", "32768", "--max-running-requests", "32",
    "--cuda-graph-backend-prefill=disabled", "--cuda-graph-max-bs-decode", "32",
]  # fmt: skip


@dataclass
class Server:
    """One server process; its log lies in `logs`."""

    name: str
    port: int
    args: list[str]
    logs: Path
    env: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen | None = None
    seconds_up: float | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Server:
        log = (self.logs / f"{self.name}.log").open("w")
        command = [sys.executable, "-m", "sglang.launch_server", "--host", "127.0.0.1", "--port", str(self.port)]
        self.process = subprocess.Popen(
            [*command, *self.args], stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **self.env},
        )  # fmt: skip
        return self

    def post(self, path: str, body: dict[str, Any] | None = None, timeout: float = 120) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        text = urllib.request.urlopen(request, timeout=timeout).read()
        return json.loads(text) if text else None

    def healthy(self) -> bool:
        try:
            urllib.request.urlopen(self.url + "/health", timeout=2)
            return True
        except OSError:
            return False

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def log(self) -> str:
        return (self.logs / f"{self.name}.log").read_text(errors="replace")

    def stop(self) -> None:
        if self.alive():
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(20)


def start_all(servers: list[Server], limit: float) -> list[Server]:
    """Start all, wait for health; returns those that came up and prints the end of the log of those that did not."""
    begin = time.time()
    for server in servers:
        server.start()
    while time.time() - begin < limit:
        for server in servers:
            if server.seconds_up is None and server.alive() and server.healthy():
                server.seconds_up = time.time() - begin
                print(f"[{server.name}] up after {server.seconds_up:.0f} s", flush=True)
        if all(s.seconds_up is not None or not s.alive() for s in servers):
            break
        time.sleep(0.5)
    for server in servers:
        if server.seconds_up is None:
            tail = "\n".join(line[:300] for line in server.log().splitlines()[-45:])
            print(f"[{server.name}] NOT UP (alive={server.alive()})\n{tail}", flush=True)
    return [s for s in servers if s.seconds_up is not None]
