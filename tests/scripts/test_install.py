"""install.sh, with an interpreter that writes down what it is asked for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STUB = """#!/bin/bash
echo "$0 $@" >>"$CALLS"
case "$*" in
*'m.version("sglang")'*) cat "$(dirname "$0")/sglang-version" 2>/dev/null; exit 0 ;;
*"-m venv"*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python3" ;;
*"install sglang=="*) echo 0.5.23 >"$(dirname "$0")/sglang-version" ;;
*"pip freeze"*) printf 'torch==2.14.1\\nlocal @ file:///x\\n' ;;
*" -c "*) cp "$5" "$CALLS.pins" ;;
esac
"""


@pytest.fixture
def install(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text(STUB)
    (tmp_path / "bin" / "python3").chmod(0o755)

    def run(*words: str, base_version: str | None = None) -> tuple[subprocess.CompletedProcess[str], str]:
        if base_version:
            (tmp_path / "bin" / "sglang-version").write_text(base_version)
        given = {
            "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
            "CALLS": f"{tmp_path}/calls",
            "VENV": f"{tmp_path}/venv",
        }
        script = [str(ROOT / "scripts" / "install.sh"), *words]
        done = subprocess.run(script, env=given, capture_output=True, text=True)
        return done, (tmp_path / "calls").read_text() if (tmp_path / "calls").exists() else ""

    return run


def test_a_bare_base_gets_sglang_in_an_environment_and_the_plugin_beside_it(install, tmp_path):
    done, calls = install()
    assert done.returncode == 0, done.stderr
    python = f"{tmp_path}/venv/bin/python3"
    order = [f"{python} -m pip install sglang==0.5.23", f"{python} -m pip install -c", "cli.main check"]
    assert [calls.index(part) for part in order] == sorted(calls.index(part) for part in order)


def test_the_plugin_may_move_nothing_that_is_installed(install, tmp_path):
    install()
    assert (tmp_path / "calls.pins").read_text() == "torch==2.14.1\n"


def test_a_base_that_has_sglang_gets_the_plugin_alone(install):
    done, calls = install(base_version="0.5.23")
    assert done.returncode == 0 and "venv" not in calls and "install sglang==" not in calls and " -c " in calls


def test_a_base_with_another_sglang_gets_an_environment_of_its_own(install):
    assert "-m venv" in install(base_version="0.5.22")[1]


def test_the_plugin_alone_is_refused_without_sglang(install):
    done, _ = install("plugin")
    assert done.returncode == 1 and "run: scripts/install.sh sglang" in done.stderr


def test_another_word_is_refused(install):
    assert install("everything")[0].returncode == 2
