"""setup-env.sh decides rightly what to install; a stub in Python's place writes down what it was asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Stands in for the interpreter and, copied into the environment that it "creates", for the one inside.
STUB = """#!/bin/bash
echo "$@" >>"$CALLS"
case "$*" in
*"-m venv "*) [ -n "$NO_VENV" ] && exit 1; mkdir -p "$3/bin"; touch "$3/pyvenv.cfg"; cp "$0" "$3/bin/python" ;;
*python3.%d-venv*) echo python3.11-venv ;;
*"$KILLED_AT"*) [ -n "$KILLED_AT" ] && exit 137 ;;
esac
exit 0
"""


class Setup:
    def __init__(self, folder: Path):
        self.repo, self.venv, self.calls = folder / "repo", folder / "venv", folder / "calls"
        for part in ("scripts", "requirements", "cpu"):
            shutil.copytree(ROOT / part, self.repo / part)
        shutil.copy(ROOT / "pyproject.toml", self.repo)
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.command("python-stub", STUB)
        self.command("id", "#!/bin/sh\necho 1000\n")  # never root: no test may call apt-get

    def command(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def run(self, **env: str) -> tuple[subprocess.CompletedProcess, list[str]]:
        """The finished script, and what the stub was asked for by this run."""
        self.calls.write_text("")
        given = {"PATH": f"{self.bin}:{os.environ['PATH']}", "PYTHON": "python-stub", "DSPINE_VENV": str(self.venv)}
        given |= {"CALLS": str(self.calls), "KILLED_AT": "", "NO_VENV": "", "HOME": os.environ.get("HOME", "/"), **env}
        script = self.repo / "scripts" / "setup-env.sh"
        return subprocess.run([script], env=given, capture_output=True, text=True), self.calls.read_text().splitlines()


@pytest.fixture
def setup(tmp_path):
    return Setup(tmp_path)


def installs(calls: list[str]) -> str:
    return "\n".join(call for call in calls if " install " in call)


def test_without_a_gpu_the_stand_in_is_installed_and_the_path_printed(setup):
    done, calls = setup.run()
    assert done.stdout.strip() == str(setup.venv)
    asked = installs(calls)
    assert f"{setup.repo}/cpu" in asked and "--no-deps torch==" in asked and "--no-deps -r /dev/fd/" in asked
    assert f"-e {setup.repo}[test]" in asked


def test_with_a_gpu_sglang_comes_with_its_dependencies_and_no_stand_in(setup):
    setup.command("nvidia-smi", "#!/bin/sh\necho 'GPU 0: a GPU'\n")
    _, calls = setup.run()
    asked = installs(calls)
    assert "sglang==0.5.23" in asked
    assert f"{setup.repo}/cpu" not in asked and "requirements" not in asked


def test_a_second_call_asks_for_nothing(setup):
    setup.run()
    done, calls = setup.run()
    assert (done.stdout.strip(), calls) == (str(setup.venv), [])


@pytest.mark.parametrize("killed_at", ["torch==", "-r ", "/cpu", "[test]", "launch_server"])
def test_a_killed_installation_is_redone(setup, killed_at):
    done, _ = setup.run(KILLED_AT=killed_at)
    assert done.returncode != 0 and "failed: " in done.stderr
    again, calls = setup.run()
    assert again.returncode == 0 and any(killed_at in call for call in calls)


def test_a_change_of_the_stand_in_reinstalls_it_and_nothing_heavier(setup):
    setup.run()
    (setup.repo / "cpu" / "sgl_kernel" / "kv.py").write_text("# changed\n")
    _, calls = setup.run()
    assert f"{setup.repo}/cpu" in installs(calls) and "torch" not in installs(calls)


def test_changed_pins_start_over(setup):
    setup.run()
    with (setup.repo / "requirements" / "cpu.txt").open("a") as pins:
        pins.write("another==1.0\n")
    _, calls = setup.run()
    assert any("-m venv" in call for call in calls)


def test_a_folder_of_someone_else_is_left_alone(setup):
    setup.venv.mkdir()
    (setup.venv / "mine").write_text("precious")
    done, calls = setup.run()
    assert done.returncode != 0 and "was not made by this script" in done.stderr
    assert (setup.venv / "mine").read_text() == "precious" and calls == []


def test_a_missing_venv_module_is_named(setup):
    done, _ = setup.run(NO_VENV="1")
    assert done.returncode != 0 and "apt-get install python3.11-venv" in done.stderr


def test_no_python_says_which_were_tried(setup):
    done, _ = setup.run(PYTHON="python9.9")
    assert done.returncode != 0 and "python9.9" in done.stderr
