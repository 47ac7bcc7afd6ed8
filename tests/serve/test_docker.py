"""Docker mode, against an engine that writes down what it is asked for."""

from __future__ import annotations

import itertools
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sglang_dspine.serve.docker_plan import IMAGE
from sglang_dspine.serve.failure import ServeError
from sglang_dspine.serve.mounts import mount_root, read_only

from .conftest import ROOT


def values(words: list[str], flag: str) -> list[str]:
    return [following for word, following in itertools.pairwise(words) if word == flag]


def run_words(shell, *words: str, **environment: str) -> list[str]:
    done = shell.run("--docker", *words, **{**shell.docker, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    (called,) = shell.docker_calls("run")
    return called


def test_an_engine_that_answers_is_the_default(shell):
    done = shell.run(**shell.docker)
    assert done.returncode == 0 and "serving at http://127.0.0.1" in done.stdout, done.stderr
    assert "accepted length 3.94" in done.stdout and shell.docker_calls("run")


def test_sglangs_arguments_follow_the_image_and_the_users_come_last(shell):
    words = run_words(shell, "--", "--log-level", "debug")
    arguments = words[words.index(IMAGE) + 1 :]
    assert arguments[0] == "run" and arguments[-2:] == ["--log-level", "debug"]
    assert values(arguments, "--speculative-algorithm") == ["DSPINE"] and values(arguments, "--host") == ["0.0.0.0"]
    assert values(arguments, "--speculative-draft-attention-backend") == ["fa4"]
    assert values(arguments, "--model-path") == [shell.environment["MODEL"]]


def test_the_endpoint_is_on_loopback_unless_told_otherwise(shell):
    assert values(run_words(shell), "--publish") == [f"127.0.0.1:{shell.port}:30000"]


@pytest.mark.full
def test_another_host_is_published_when_asked_for(shell):
    assert values(run_words(shell, HOST="0.0.0.0"), "--publish") == [f"0.0.0.0:{shell.port}:30000"]


def test_model_and_cache_are_mounted_and_nothing_else_of_the_host(shell, tmp_path):
    draft = tmp_path / "draft"
    draft.mkdir()
    words = run_words(shell, DRAFT=str(draft), PREFLIGHT="warn")
    model = shell.environment["MODEL"]
    assert values(words, "--volume") == [f"{draft}:{draft}:ro", f"{model}:{model}:ro", f"{shell.root}/cache:/cache"]
    assert values(words, "--user") and values(words, "--security-opt") == ["no-new-privileges"]
    assert "--privileged" not in words


def test_a_table_that_is_named_is_mounted_and_its_name_passed_on(shell):
    packaged = next((ROOT / "sglang_dspine" / "widths" / "packaged").glob("*.json"))
    (shell.root.parent / "table.json").write_text(packaged.read_text())
    words = run_words(shell, DSPINE_SPS_TABLE="table.json")
    assert "DSPINE_SPS_TABLE" in values(words, "--env")
    folder = shell.root.parent
    assert f"{folder}:{folder}:ro" in values(words, "--volume")


def test_the_key_goes_by_a_private_file_and_is_in_no_word_and_no_output(shell):
    done = shell.run("--docker", **shell.docker, API_KEY="s3cret")
    state = shell.root.parent / "state"
    assert done.returncode == 0 and "s3cret" not in done.stdout + done.stderr
    calls = (shell.root / "docker-calls" / "calls.jsonl").read_text()
    assert "s3cret" not in calls
    key = state / f"{shell.port}.key"
    assert key.read_text() == "s3cret" and key.stat().st_mode & 0o777 == 0o600
    assert f"{key}:/run/secrets/dspine_api_key:ro" in values(shell.docker_calls("run")[0], "--volume")
    shell.run("--stop", **shell.docker)
    assert not key.exists()


@pytest.mark.full
def test_a_token_of_the_hub_is_passed_by_name_only(shell):
    words = run_words(shell, HF_TOKEN="hf_secret")
    assert "HF_TOKEN" in values(words, "--env") and "hf_secret" not in " ".join(words)


@pytest.mark.full
def test_the_image_is_built_once_and_one_that_is_named_never(shell):
    shell.run("--docker", **shell.docker)
    shell.run("--docker", "--restart", **shell.docker)
    (built,) = shell.docker_calls("build")
    assert values(built, "--tag") == [IMAGE] and Path(values(built, "--file")[0]).is_file()
    shell.run("--docker", "--restart", **shell.docker, IMAGE="mine:1")
    assert len(shell.docker_calls("build")) == 1 and "mine:1" in shell.docker_calls("run")[-1]
    assert shell.docker_calls("pull") == [["pull", "mine:1"]]


def test_an_image_that_cannot_be_pulled_is_told(shell):
    done = shell.run("--docker", **shell.docker, IMAGE="mine:1", STAND_IN_PULL="1")
    assert done.returncode == 1 and "docker pull mine:1 failed" in done.stderr and not shell.docker_calls("run")


def test_a_build_that_fails_is_told(shell):
    done = shell.run("--docker", **shell.docker, STAND_IN_BUILD="1")
    assert done.returncode == 1 and "docker build of" in done.stderr and not shell.docker_calls("run")


def test_a_dry_run_prints_the_command_and_asks_the_engine_for_nothing(shell):
    done = shell.run("--docker", "--dry-run", **shell.docker, API_KEY="s3cret")
    (line,) = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert shlex.split(line)[:3] == ["docker", "run", "--detach"] and "s3cret" not in done.stdout
    assert "# memory budget" in done.stdout and not (shell.root / "docker-calls" / "calls.jsonl").exists()


def test_a_second_start_reports_the_first_and_other_settings_are_refused(shell):
    shell.run("--docker", **shell.docker)
    again = shell.run("--docker", **shell.docker)
    assert again.returncode == 0 and "already" in again.stdout
    other = shell.run("--docker", "--", "--log-level", "debug", **shell.docker)
    assert other.returncode == 1 and "--restart replaces it" in other.stderr
    assert len(shell.docker_calls("run")) == 1
    replaced = shell.run("--docker", "--restart", "--", "--log-level", "debug", **shell.docker)
    assert replaced.returncode == 0 and shell.docker_calls("run")[-1][-1] == "debug"


@pytest.mark.full
def test_status_logs_and_stop_find_the_container(shell):
    shell.run("--docker", **shell.docker)
    seen = shell.run("--status", **shell.docker)
    assert seen.returncode == 0 and f"sglang-dspine-{shell.port} (healthy)" in seen.stdout
    assert len(shell.run("--logs", **shell.docker).stdout.splitlines()) == 200
    assert "stopped" in shell.run("--stop", **shell.docker).stdout
    assert shell.run("--status", **shell.docker).returncode == 3


def test_death_prints_the_last_200_lines_keeps_the_whole_log_and_removes_the_container(shell):
    done = shell.run("--docker", **shell.docker, STAND_IN_DIES="3")
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and lines[:200] == [f"line {i} of the log" for i in range(100, 300)]
    assert "SGLang ended with status 3: " in lines[200] and "doctor" in lines[200] and shell.docker_calls("rm")
    assert len((shell.root.parent / "state" / f"{shell.port}.log").read_text().splitlines()) == 300


@pytest.mark.full
def test_a_killed_container_is_told_as_short_of_memory(shell):
    done = shell.run("--docker", **shell.docker, STAND_IN_DIES="137")
    assert "SGLang was killed with status 137: " in done.stderr and "memory runs out" in done.stderr.splitlines()[-1]


@pytest.mark.full
def test_one_that_never_gets_healthy_is_removed_after_the_limit(shell):
    done = shell.run("--docker", **shell.docker, STAND_IN_HANGS="1", START_LIMIT="1")
    assert done.returncode == 1 and "not healthy after 1 s; START_LIMIT" in done.stderr and shell.docker_calls("rm")


@pytest.mark.full
def test_one_whose_first_answer_is_wrong_does_not_stay(shell):
    done = shell.run("--docker", **shell.docker, STAND_IN_ANSWER="1")
    assert done.returncode == 1 and "first answer" in done.stderr and shell.docker_calls("rm")


def test_the_first_answer_is_asked_for_with_the_vocabulary_and_the_flag_to_try(shell):
    shell.run("--docker", **shell.docker)
    (asked,) = shell.docker_calls("exec")
    assert asked[asked.index("ask") + 1] == "272" and "start again with -- --" in asked[-1]


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"STAND_IN_DOWN": "1"}, "does not answer"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "no GPU"),
        ({"MODEL": "/no"}, "MODEL=/no"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_nothing_is_run(shell, environment, said):
    done = shell.run("--docker", **{**shell.docker, **environment})
    assert done.returncode == 1 and said in done.stderr and len(done.stderr.splitlines()) == 1
    calls = shell.root / "docker-calls" / "calls.jsonl"
    assert not calls.exists() or not shell.docker_calls("run")


def test_a_hub_snapshot_is_mounted_with_the_blobs_that_it_points_to(tmp_path):
    repository = tmp_path / "models--a--b"
    (repository / "blobs").mkdir(parents=True)
    (repository / "blobs" / "1").write_text("x")
    snapshot = repository / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").symlink_to(repository / "blobs" / "1")
    assert mount_root(snapshot) == repository
    assert read_only(snapshot, repository / "blobs") == ["--volume", f"{repository}:{repository}:ro"]


def test_links_to_all_over_the_machine_are_refused(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").symlink_to("/usr/bin/env")
    with pytest.raises(ServeError, match="cp -rL"):
        mount_root(tmp_path / "m")


def test_the_host_needs_no_package_but_pythons_own(shell):
    """-S -I: no site-packages, whatever this machine has installed."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv[1:] = ['--docker', '--dry-run']\n"
    code += "from sglang_dspine.serve.__main__ import main; main(sys.argv[1:])\n"
    code += "import sglang_dspine.serve.docker_session"
    given = {**shell.environment, **shell.docker}
    done = subprocess.run([sys.executable, "-S", "-I", "-c", code], env=given, capture_output=True, text=True)
    assert done.returncode == 0 and "docker run --detach" in done.stdout, done.stderr


def test_a_state_folder_that_cannot_be_used_is_told_before_an_image_is_built(shell):
    done = shell.run("--docker", **{**shell.docker, "DSPINE_STATE": "/proc/state"})
    assert done.returncode == 1 and "DSPINE_STATE=/proc/state" in done.stderr and "Traceback" not in done.stderr
    assert not shell.docker_calls("build") and not shell.docker_calls("run")
