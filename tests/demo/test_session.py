"""The demo's flow beside a stand-in for SGLang, and once for real."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from demo import session
from sglang_dspine.serve.settings import Settings

from ..serve.conftest import ROOT, STAND_IN, free_port, gone


@pytest.fixture
def demo(tmp_path, monkeypatch):
    """demo(**environment): the exit status of `--demo --once` beside the stand-in."""
    monkeypatch.setenv("PYTHONPATH", str(STAND_IN))
    monkeypatch.setenv("STAND_IN_RECORD", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("STAND_IN_ROUNDS", "12")
    monkeypatch.setattr(session, "stop_on_signals", lambda: None)  # the handlers of the test runner stay
    monkeypatch.setattr(session, "held_out_prompts", lambda *_: torch.arange(16 * 256).reshape(16, 256) % 200)

    def run(*extra: str, **environment: str) -> int:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return session.serve(Settings(port=free_port(), python=sys.executable, state=tmp_path), extra, once=True)

    return run


def record(tmp_path: Path, server: str) -> dict:
    return json.loads((tmp_path / f"{server}.json").read_text())


def test_equal_text_passes_and_leaves_nothing_behind(demo, tmp_path, capsys):
    assert demo() == 0
    said = capsys.readouterr().out
    assert "0 of 1536 differ from plain decode" in said and "accepted length 3.92" in said  # (48 - 1) / 12
    assert "DSPINE: " in said and "plain: " in said and "tok/s" in said
    assert gone(record(tmp_path, "dspine")["pids"] + record(tmp_path, "plain")["pids"])
    assert len(list(tmp_path.glob("*.log"))) == 2  # they stay to be read, and the next run replaces them


def test_a_wrong_last_token_in_each_text_fails(demo, capsys):
    assert demo(STAND_IN_WRONG="1") == 1
    assert "failed: 32 of 1536 differ from plain decode; expected 0" in capsys.readouterr().out


def test_too_low_an_accepted_length_fails(demo, capsys):
    assert demo(STAND_IN_ROUNDS="16") == 1  # 47 / 16 = 2.94
    assert "failed: accepted length 2.94; expected at least 3.0" in capsys.readouterr().out


def test_the_compared_server_has_the_same_flags_but_no_speculation(demo, tmp_path):
    demo("--log-level", "debug", "--speculative-num-draft-tokens", "8")
    dspine, plain = (record(tmp_path, server)["words"] for server in ("dspine", "plain"))
    assert dspine[-2:] == ["--speculative-num-draft-tokens", "8"] and plain[-2:] == ["--log-level", "debug"]
    assert not any(word.startswith("--speculative") for word in plain)
    assert set(plain) - set(dspine) == {plain[plain.index("--port") + 1]}


@pytest.mark.full
@pytest.mark.timeout(1500)
def test_the_real_demo_passes(tmp_path):
    environment = os.environ | {
        "DSPINE_PYTHON": sys.executable, "DSPINE_STATE": str(tmp_path), "PORT": str(free_port()),
    }  # fmt: skip
    done = subprocess.run([str(ROOT / "serve.sh"), "--demo", "--once"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " differ from plain decode" in done.stdout
