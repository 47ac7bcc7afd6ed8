"""What --status says about servers in every condition."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from sglang_dspine.serve import actions
from sglang_dspine.serve.engine import Container
from sglang_dspine.serve.port import free_port
from sglang_dspine.serve.record import recorded
from sglang_dspine.serve.settings import Settings


@pytest.fixture(autouse=True)
def no_docker(monkeypatch):
    monkeypatch.setattr(actions, "find_engine", lambda: None)
    monkeypatch.setattr(actions, "HEALTH_S", 0.3)


@contextlib.contextmanager
def answering(code: int) -> Iterator[int]:
    """The port of a server whose /health answers with `code`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *ignored: object) -> None:
            """Silent."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def status(state: Path, port: int) -> int:
    settings = Settings(port=port, state=state)
    with recorded(state, port, settings.url, "a model"):
        return actions.status(settings)


@pytest.mark.parametrize(("code", "said", "expected"), [(200, "healthy", 0), (503, "starting", 4), (500, "500", 5)])
def test_the_exit_status_follows_what_health_says(tmp_path, capsys, code, said, expected):
    with answering(code) as port:
        assert status(tmp_path, port) == expected
    assert said in capsys.readouterr().out.partition("(")[2]


def test_a_server_that_does_not_listen_yet_is_starting(tmp_path, capsys):
    assert status(tmp_path, free_port()) == 4 and "(starting)" in capsys.readouterr().out


def test_a_server_that_takes_connections_and_says_nothing_does_not_answer(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as hung:
        assert status(tmp_path, hung.getsockname()[1]) == 5
    assert "(does not answer: /health: timed out" in capsys.readouterr().out


@pytest.mark.parametrize(("health", "expected"), [("healthy", 0), (None, 0), ("starting", 4), ("unhealthy", 5)])
def test_the_exit_status_of_a_container_is_what_docker_found(tmp_path, monkeypatch, health, expected):
    class Engine:
        def find(self, name: str) -> Container:
            return Container(name, "running", health, 0, False, {})

    monkeypatch.setattr(actions, "find_engine", Engine)
    assert actions.status(Settings(port=free_port(), state=tmp_path)) == expected
