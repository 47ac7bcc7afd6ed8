"""The Docker engine, by its command line."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from .failure import ServeError

WHAT, PLAN = "sglang-dspine.what", "sglang-dspine.plan"  # labels
GRACE_S = 30


@dataclass(frozen=True)
class Container:
    name: str
    status: str  # created, running, exited, dead ...
    health: str | None  # starting, healthy, unhealthy; None where the image checks nothing
    exit_status: int
    out_of_memory: bool
    labels: dict[str, str]

    @property
    def running(self) -> bool:
        return self.status in ("running", "restarting", "paused")

    @property
    def what(self) -> str | None:
        return self.labels.get(WHAT)


@dataclass(frozen=True)
class Engine:
    tool: str

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.tool, *words], capture_output=True, text=True)

    def must(self, *words: str) -> str:
        """Output of a command that has to succeed. Raises ServeError with what Docker said."""
        done = self.ask(*words)
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["no reason given"]
            raise ServeError(f"docker {words[0]} failed with status {done.returncode}: {said[0]}")
        return done.stdout

    def find(self, name: str) -> Container | None:
        """A container of this name, running or not."""
        done = self.ask("container", "inspect", name)
        if done.returncode != 0:
            return None
        seen = json.loads(done.stdout)[0]
        state = seen["State"]
        health = (state.get("Health") or {}).get("Status")
        labels = seen["Config"].get("Labels") or {}
        return Container(name, state["Status"], health, state["ExitCode"], bool(state.get("OOMKilled")), labels)

    def remove(self, name: str) -> None:
        """Stop it with time to end by itself, then take it away; one that is gone is no error."""
        self.ask("stop", "--time", str(GRACE_S), name)
        self.ask("rm", "--force", name)

    def log(self, name: str, lines: int | None = None) -> str:
        tail = [] if lines is None else ["--tail", str(lines)]
        done = subprocess.run(
            [self.tool, "logs", *tail, name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return done.stdout.rstrip("\n")

    def has_image(self, image: str) -> bool:
        return self.ask("image", "inspect", image).returncode == 0

    def show(self, words: Sequence[str]) -> int:
        """Run with our own output, for what takes long and reports itself: builds, the first answer."""
        return subprocess.run([self.tool, *words]).returncode


def find_engine() -> Engine | None:
    """None where there is no `docker`, or its engine does not answer."""
    tool = shutil.which("docker")
    if tool is None:
        return None
    engine = Engine(tool)
    return engine if engine.ask("info").returncode == 0 else None


def require_engine() -> Engine:
    if shutil.which("docker") is None:
        raise ServeError(
            "found no docker; install it, or use --native with an installed SGLang, --demo for the small pair"
        )
    engine = find_engine()
    if engine is None:
        raise ServeError("the Docker engine does not answer (docker info); start it, or join the group that may use it")
    return engine
