"""The container's process: SGLang with the key out of words, environment and output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from .conftest import ROOT, STAND_IN, free_port, wait_until


@pytest.fixture
def inside(tmp_path):
    started = []

    def start(*words: str, **environment: str) -> subprocess.Popen[str]:
        given = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": f"{STAND_IN}:{ROOT}"}
        given |= {"STAND_IN_RECORD": str(tmp_path), "CUDA_VISIBLE_DEVICES": "", **environment}
        process = subprocess.Popen(
            [sys.executable, "-m", "sglang_dspine.serve.inside", "run", *words], env=given, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for record in tmp_path.glob("*.json"):  # first: what holds the output open
        for pid in json.loads(record.read_text())["pids"]:
            subprocess.run(["kill", "-9", str(pid)], capture_output=True)
    for process in started:
        process.kill()
        process.wait(20)
        process.stdout.close()


def words_of(port: int) -> list[str]:
    return ["--model-path", "/m", "--host", "127.0.0.1", "--port", str(port)]


@pytest.mark.parametrize("by", ["file", "environment"])
def test_the_key_reaches_sglang_and_no_output(inside, tmp_path, by):
    (tmp_path / "key").write_text("s3cret\n")
    given = {"API_KEY_FILE": str(tmp_path / "key")} if by == "file" else {"API_KEY": "s3cret", "API_KEY_FILE": "/no"}
    process = inside(*words_of(free_port()), STAND_IN_DIES="5", **given)
    said = process.communicate()[0]
    assert process.returncode == 5 and "'<API_KEY>'" in said and "s3cret" not in said
    record = json.loads((tmp_path / "plain.json").read_text())
    assert "s3cret" not in " ".join(record["words"]) and "API_KEY" not in record["environment"]


@pytest.mark.parametrize("key", ["", "s3cret"])
def test_stopping_the_container_ends_sglang(inside, tmp_path, key):
    process = inside(*words_of(free_port()), API_KEY=key, API_KEY_FILE="/no")
    wait_until(lambda: (tmp_path / "plain.json").exists() and (tmp_path / "plain.json").stat().st_size > 0)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) in (-signal.SIGTERM, 128 + signal.SIGTERM)


def test_without_a_model_path_the_flags_come_from_model_and_gpu(inside, tmp_path):
    from ..preflight.folders import SMALL, target

    folder = target(tmp_path / "m", **SMALL)
    process = inside("--log-level", "debug", MODEL=str(folder), DRAFT="a/b", API_KEY_FILE="/no", STAND_IN_DIES="0")
    process.wait(20)
    words = json.loads((tmp_path / "dspine.json").read_text())["words"]
    assert words[:2] == ["--model-path", str(folder)] and words[-2:] == ["--log-level", "debug"]
    assert words[words.index("--host") + 1] == "0.0.0.0" and "--enable-metrics" in words
