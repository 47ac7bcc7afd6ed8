"""The API key's way to SGLang."""

from __future__ import annotations

import runpy

import pytest

from sglang_dspine.compat.check import sglang_root
from sglang_dspine.serve.failure import ServeError
from sglang_dspine.serve.keyfile import hide_key


def test_the_key_moves_from_the_words_into_a_private_file(tmp_path):
    words = hide_key(["python", "--a", "--api-key", 'k"e: y', "--b"], tmp_path / "state" / "k.yaml")
    path = tmp_path / "state" / "k.yaml"
    assert words == ["python", "--a", "--config", str(path), "--b"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_a_key_nothing_is_written(tmp_path):
    assert hide_key(["a"], tmp_path / "k.yaml") == ["a"] and not (tmp_path / "k.yaml").exists()


def test_a_config_file_of_the_users_cannot_be_given_beside_a_key(tmp_path):
    with pytest.raises(ServeError, match=r"put `api-key: \.\.\.` into yours"):
        hide_key(["--api-key", "k", "--config", "c.yaml"], tmp_path / "k.yaml")


def test_sglang_reads_the_file_as_the_argument_it_stands_for(tmp_path):
    path = sglang_root() / "sglang/srt/utils/server_args_config_parser.py"  # alone: the package takes long to import
    ConfigArgumentMerger = runpy.run_path(str(path))["ConfigArgumentMerger"]
    words = hide_key(["--model-path", "m", "--api-key", 'k"e: y'], tmp_path / "k.yaml")
    read = ConfigArgumentMerger(boolean_actions=[]).merge_config_with_args(words)
    assert read == ["--api-key", 'k"e: y', "--model-path", "m"]
