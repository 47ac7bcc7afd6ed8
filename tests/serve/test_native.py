"""`./serve.sh --native` with real SGLang and the demo pair, as a new user would go about it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from ..support.http_server import free_port
from ..support.process import GPU
from .conftest import ROOT, gone, wait_until

pytestmark = [
    pytest.mark.full,
    pytest.mark.xdist_group("http"),
    pytest.mark.skipif(GPU, reason="serves on the CPU"),
]
FLAGS = ["--max-total-tokens", "8192", "--max-running-requests", "4", "--max-mamba-cache-size", "16"]
LIMIT_S = 500


@pytest.fixture
def serve(tmp_path):
    """`serve(*words)`: ./serve.sh WORDS about the demo pair, as from a terminal; ended by the end of the test."""
    port, started = str(free_port()), []
    given = {
        "MODEL": "demo/target",
        "DRAFT": "demo/draft",
        "PORT": port,
        "API_KEY": "s3cret",
        "CUDA_VISIBLE_DEVICES": "",
    }
    given |= {"DSPINE_PYTHON": sys.executable, "DSPINE_STATE": str(tmp_path), "START_LIMIT": str(LIMIT_S)}

    def start(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [str(ROOT / "serve.sh"), *words], env=os.environ | given, cwd=ROOT,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        started.append(process)
        return process

    start.url = f"http://127.0.0.1:{port}"  # type: ignore[attr-defined]
    yield start
    for process in started:
        process.kill()  # the kernel then ends the server
        process.communicate()


def until_serving(process: subprocess.Popen[str]) -> str:
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("serving at"):
            return "".join(said)
    raise AssertionError("it never served:\n" + "".join(said))


def children(pid: int) -> list[int]:
    """Every process below `pid`."""
    found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return found + [below for child in found for below in children(child)]


def looked_at(url: str) -> dict[str, str | None]:
    """Levels of what the doctor finds about a running endpoint, its key given in SGLang's variable."""
    words = [sys.executable, "-m", "sglang_dspine.cli.main", "doctor", "--url", url, "--json"]
    environment = {**os.environ, "SGLANG_API_KEY": "s3cret"}
    done = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    levels = {finding["what"]: finding["level"] for finding in json.loads(done.stdout)["findings"]}
    return {what: levels.get(what) for what in ("endpoint", "speculation", "metrics", "acceptance")}


def test_a_server_killed_while_it_answers_is_told_leaves_nothing_and_starts_again(serve, tmp_path):
    first = serve("--native", "--", *FLAGS)
    said = until_serving(first)
    assert "ok   drafter's values" in said and float(re.search(r"accepted length ([\d.]+)", said)[1]) > 1.5
    log = (tmp_path / f"{serve.url.rpartition(':')[2]}.log").read_text()
    assert "s3cret" not in said + log
    assert looked_at(serve.url) == {"endpoint": None, "speculation": "ok", "metrics": "ok", "acceptance": "ok"}
    below = children(first.pid)
    scheduler = next(pid for pid in below if "scheduler" in Path(f"/proc/{pid}/cmdline").read_text())
    asked = {"text": "def area(", "stream": True, "sampling_params": {"max_new_tokens": 4000, "ignore_eos": True}}
    headers = {"Authorization": "Bearer s3cret"}
    with (
        pytest.raises(httpx.TransportError),
        httpx.stream("POST", f"{serve.url}/generate", json=asked, headers=headers, timeout=LIMIT_S) as stream,
    ):
        for number, _ in enumerate(stream.iter_lines()):
            if number == 4:
                os.kill(scheduler, signal.SIGKILL)
    rest = first.communicate(timeout=120)[0]
    assert first.returncode == 1 and "serve.sh: SGLang ended by signal 9: " in rest.splitlines()[-1]
    wait_until(lambda: gone(below))
    status = serve("--status")
    assert "nothing is served" in status.communicate(timeout=60)[0] and status.returncode == 3

    again = serve("--native", "--", *FLAGS)
    until_serving(again)
    below = children(again.pid)
    again.send_signal(signal.SIGINT)
    rest = again.communicate(timeout=60)[0]
    assert again.returncode == 0 and re.search(r"^stopping .*\nstopped after \d+ s$", rest, re.MULTILINE), rest
    assert gone(below)
