"""One server process, and nothing left of it."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from sglang_dspine.serve.command import Command
from sglang_dspine.serve.failure import ServeError
from sglang_dspine.serve.health import wait_healthy
from sglang_dspine.serve.server import Server

from .conftest import STAND_IN, free_port, gone, wait_until

SLEEPER = "import time; time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); {SLEEPER}"


def stand_in(tmp_path, monkeypatch, **environment: str) -> tuple[Server, str]:
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    monkeypatch.setenv("STAND_IN_RECORD", str(tmp_path))
    port = free_port()
    words = [sys.executable, "-m", "sglang.launch_server", "--host", "127.0.0.1", "--port", str(port)]
    return Server(Command(words, environment), tmp_path / "log"), f"http://127.0.0.1:{port}"


def pids(tmp_path) -> list[int]:
    return json.loads((tmp_path / "plain.json").read_text())["pids"]


def test_stopping_ends_the_servers_own_processes_too(tmp_path, monkeypatch):
    server, url = stand_in(tmp_path, monkeypatch)
    with server:
        wait_healthy(server, url, 30)
        assert not any(gone([pid]) for pid in pids(tmp_path))
    assert gone(pids(tmp_path))


def test_a_server_that_ignores_the_request_is_ended_after_its_grace(tmp_path):
    server = Server(Command([sys.executable, "-c", STUBBORN]), tmp_path / "log").start()
    wait_until(lambda: "up" in server.log.tail(1))
    server.stop(grace_s=0.2)
    assert server.exit_status == -signal.SIGKILL


def test_a_killed_supervisor_leaves_no_server(tmp_path):
    source = (
        "import os, pathlib, sys\n"
        "from sglang_dspine.serve.server import Command, Server\n"
        f"server = Server(Command([sys.executable, '-c', '{SLEEPER}']), pathlib.Path('{tmp_path}/log'))\n"
        "print(server.start().pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    pid = int(subprocess.run([sys.executable, "-c", source], capture_output=True, text=True).stdout)
    wait_until(lambda: gone([pid]))


def test_death_is_told_with_its_status_and_the_last_200_lines(tmp_path, monkeypatch):
    server, url = stand_in(tmp_path, monkeypatch, STAND_IN_DIES="7")
    with server, pytest.raises(ServeError, match="ended with status 7") as caught:
        wait_healthy(server, url, 30)
    assert caught.value.log.splitlines() == [f"line {i} of the log" for i in range(100, 300)]
    assert gone(pids(tmp_path))


def test_waiting_ends_at_its_limit_and_was_reported_meanwhile(tmp_path, monkeypatch):
    server, url = stand_in(tmp_path, monkeypatch, STAND_IN_HANGS="1")
    seen: list[tuple[float, str]] = []
    began = time.monotonic()
    with server, pytest.raises(ServeError, match="not healthy after 2 s; START_LIMIT"):
        wait_healthy(server, url, 2, lambda seconds, line: seen.append((seconds, line)))
    assert time.monotonic() - began < 15 and seen[-1][1] == "loading weights"


def test_what_the_user_has_set_wins_over_the_profile(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    server, url = stand_in(tmp_path, monkeypatch, OMP_NUM_THREADS="1", ADDED="2")
    with server:
        wait_healthy(server, url, 30)
    environment = json.loads((tmp_path / "plain.json").read_text())["environment"]
    assert (environment["OMP_NUM_THREADS"], environment["ADDED"]) == ("5", "2")


def test_an_interpreter_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ServeError, match="cannot run /nowhere/python"):
        Server(Command(["/nowhere/python"]), tmp_path / "log").start()
    assert os.path.exists(tmp_path / "log")


def test_no_key_stays_behind_a_server_that_cannot_be_started(tmp_path, monkeypatch):
    with pytest.raises(ServeError, match="cannot run /nowhere/python"):
        Server(Command(["/nowhere/python", "--api-key", "s3cret"]), tmp_path / "1.log").start()
    assert not list(tmp_path.glob("*.yaml"))

    def full(words, path):
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("sglang_dspine.serve.server.hide_key", full)
    with pytest.raises(ServeError, match=r"DSPINE_STATE=.*No space left on device"):
        Server(Command(["python", "--api-key", "s3cret"]), tmp_path / "1.log").start()
    assert not list(tmp_path.glob("*.yaml"))
