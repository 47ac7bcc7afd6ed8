"""`python -m sglang.launch_server` in a process group of its own, up and healthy, gone at the end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from .process import DEFAULTS, ENVIRONMENT

POLL_S = 0.25


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def flags_of(settings: dict) -> list[str]:
    """{"max_total_tokens": 4096, "disable_cuda_graph": True} -> command-line flags; False and None are left out."""
    flags = []
    for name, value in settings.items():
        if value is not None and value is not False:
            flags.append("--" + name.replace("_", "-"))
            if value is not True:
                flags.append(str(value))
    return flags


class HttpServer:
    """A server of `model_path` with `server_args` over process.DEFAULTS; use as a context manager."""

    def __init__(self, model_path: str, timeout_s: float = 500, env: dict[str, str] | None = None, **server_args):
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        settings = {**DEFAULTS, **server_args, "model_path": model_path, "port": port, "host": "127.0.0.1"}
        self.command = [sys.executable, "-m", "sglang.launch_server", *flags_of(settings)]
        self.env = {**os.environ, **ENVIRONMENT, **(env or {})}
        self.timeout_s = timeout_s
        self.log = Path(tempfile.mkstemp(prefix="sglang-", suffix=".log")[1])

    def __enter__(self) -> HttpServer:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command, env=self.env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            self._wait_healthy()
        except BaseException:
            self.__exit__()
            raise
        self.client = httpx.Client(base_url=self.url, timeout=self.timeout_s)
        return self

    def _wait_healthy(self) -> None:
        end = time.monotonic() + self.timeout_s
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server died with {self.process.returncode}:\n{self.tail()}")
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(self.url + "/health", timeout=5).status_code == 200:
                    return
            time.sleep(POLL_S)
        raise TimeoutError(f"not healthy within {self.timeout_s} s:\n{self.tail()}")

    def __exit__(self, *exc) -> None:
        with contextlib.suppress(ProcessLookupError):  # the group, since SGLang starts processes of its own
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if hasattr(self, "client"):
            self.client.close()
        self.log.unlink()

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def generate(self, ids: list[int], **sampling) -> dict:
        """SGLang's answer {"output_ids": [...], "meta_info": {...}} to one prompt, greedy unless told."""
        body = {"input_ids": ids, "sampling_params": {"temperature": 0, **sampling}}
        response = self.client.post("/generate", json=body)
        response.raise_for_status()
        return response.json()

    def generate_together(self, prompts: list[list[int]], **sampling) -> list[dict]:
        with ThreadPoolExecutor(len(prompts)) as pool:
            return list(pool.map(lambda ids: self.generate(ids, **sampling), prompts))
