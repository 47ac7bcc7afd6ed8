"""serve.sh beside a stand-in for SGLang."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ..preflight.folders import SMALL, target
from ..support.http_server import free_port

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = ROOT / "tests" / "support" / "stand_in"
DOCKER = ROOT / "tests" / "support" / "stand_in_docker" / "docker.py"
GB10 = "12.1, NVIDIA GB10"


@dataclass
class Shell:
    """A checkout of its own (for its .env), state, port and environment."""

    root: Path
    environment: dict[str, str]
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.environment["PORT"])

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """`./serve.sh WORDS`, until it ends."""
        return subprocess.run(
            [str(self.root / "serve.sh"), *words], env=self.environment | environment, cwd=self.root.parent,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """`./serve.sh WORDS` as from a terminal: a runner in the background would hand down that SIGINT is ignored."""
        process = subprocess.Popen(
            [str(self.root / "serve.sh"), *words], env=self.environment | environment, cwd=self.root.parent,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        self.started.append(process)
        return process

    def record(self, server: str = "dspine") -> dict:
        """What the stand-in noted about its call."""
        return json.loads((self.root / f"{server}.json").read_text())

    @property
    def gpu(self) -> dict[str, str]:
        """Environment in which nvidia-smi finds a GB10."""
        tool = self.root.parent / "bin" / "nvidia-smi"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(f'#!/bin/sh\ncase "$*" in *driver*) echo "580.95.05, [N/A], [N/A]";; *) echo "{GB10}";; esac\n')
        tool.chmod(0o755)
        return {"PATH": f"{tool.parent}:{self.environment['PATH']}", "CUDA_VISIBLE_DEVICES": "0"}

    @property
    def docker(self) -> dict[str, str]:
        """Environment with a Docker engine, and a GB10."""
        gpu = self.gpu
        (self.root / "docker-calls").mkdir(exist_ok=True)
        tool = self.root.parent / "bin" / "docker"
        tool.write_text(f"#!{sys.executable} -SE\n" + DOCKER.read_text())
        tool.chmod(0o755)
        place = {"STAND_IN_DOCKER": str(self.root / "docker-calls"), "DSPINE_CACHE": str(self.root / "cache")}
        return {**gpu, **place}

    def docker_calls(self, verb: str) -> list[list[str]]:
        calls = (self.root / "docker-calls" / "calls.jsonl").read_text().splitlines()
        return [words for words in map(json.loads, calls) if words[0] == verb]

    def clean_up(self) -> None:
        """End what a failed test, or one that kills serve.sh, has left."""
        for process in self.started:
            process.kill()
            process.communicate()
        for record in self.root.glob("*.json"):
            for pid in json.loads(record.read_text())["pids"]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def shell(tmp_path) -> Iterator[Shell]:
    root = tmp_path / "checkout"
    root.mkdir()
    for name in ("serve.sh", "sglang_dspine", "demo", "docker", "scripts"):
        (root / name).symlink_to(ROOT / name)
    (root / "serve.sh").unlink()
    (root / "serve.sh").write_bytes((ROOT / "serve.sh").read_bytes())  # it looks for .env beside itself
    (root / "serve.sh").chmod(0o755)
    model = target(tmp_path / "model", **SMALL)
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": f"{STAND_IN}:{ROOT}",
        "DSPINE_PYTHON": sys.executable, "PORT": str(free_port()), "MODEL": str(model), "DRAFT": "some/draft",
        "STAND_IN_RECORD": str(root), "DSPINE_STATE": str(tmp_path / "state"), "CUDA_VISIBLE_DEVICES": "",
    }  # fmt: skip
    shell = Shell(root, environment)
    yield shell
    shell.clean_up()


def wait_until(condition, limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "not reached in time"
        time.sleep(0.05)


def gone(pids) -> bool:
    from sglang_dspine.serve.record import birth

    return all(birth(pid) is None for pid in pids)


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """`stand_in(**environment)`: the address of a healthy stand-in server."""
    from sglang_dspine.serve.command import Command
    from sglang_dspine.serve.health import wait_healthy
    from sglang_dspine.serve.server import Server

    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    servers = []

    def start(**environment: str) -> str:
        port = free_port()
        words = [sys.executable, "-m", "sglang.launch_server", "--host", "127.0.0.1", "--port", str(port)]
        servers.append(Server(Command(words, environment), tmp_path / "stand-in.log").start())
        wait_healthy(servers[-1], f"http://127.0.0.1:{port}", 30)
        return f"http://127.0.0.1:{port}"

    yield start
    for server in servers:
        server.stop()
