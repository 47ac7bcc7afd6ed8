"""The exact command."""

from __future__ import annotations

import shlex

import pytest

from sglang_dspine.serve.command import launch_command, speculation, without_speculation
from sglang_dspine.serve.failure import ServeError
from sglang_dspine.serve.profile import Flag, Profile
from sglang_dspine.serve.settings import Settings

PROFILE = Profile("p", "because", (Flag("--first", "1", "r"), Flag("--switch", None, "r")), {"NAME": "a b"})


def test_the_users_arguments_come_last():
    command = launch_command(Settings(), "/m", PROFILE, speculation("/d"), ["--first", "2"])
    assert command.words[-2:] == ["--first", "2"]
    assert command.words.index("1") < command.words.index("DSPINE") < command.words.index("2")


def test_the_line_can_be_pasted_into_a_shell():
    command = launch_command(Settings(python="/my python"), "/m", PROFILE)
    assert shlex.split(str(command)) == ["env", "NAME=a b", *command.words]


def test_the_key_is_passed_and_never_shown():
    command = launch_command(Settings(api_key="s3cret"), "/m", PROFILE)
    assert command.words[command.words.index("--api-key") + 1] == "s3cret"
    assert "s3cret" not in str(command) and "API_KEY" in str(command)


@pytest.mark.parametrize("word", ["--port", "--port=1", "--host", "--api-key", "--model-path"])
def test_what_serve_sh_must_know_is_refused_behind_the_dashes(word):
    with pytest.raises(ServeError, match=r"set [A-Z_]+=\.\.\. in the environment"):
        launch_command(Settings(), "/m", PROFILE, extra=[word, "1"])


def test_a_plain_server_gets_the_users_arguments_without_speculation():
    extra = ["--a", "1", "--speculative-num-draft-tokens", "8", "--speculative-x=3", "--b", "-2"]
    assert without_speculation(extra) == ["--a", "1", "--b", "-2"]
