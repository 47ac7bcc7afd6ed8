"""Weight files: there, and whole."""

from __future__ import annotations

import json

import pytest

from sglang_dspine.preflight.files import INDEX, incomplete, weight_bytes
from tests.support.pairs import DEMO

from .folders import hollow


def index(folder, *names):
    (folder / INDEX).write_text(json.dumps({"weight_map": {f"t{i}": name for i, name in enumerate(names)}}))


def test_a_whole_checkpoint_has_no_trouble(tmp_path):
    hollow(tmp_path / "a.safetensors", 64)
    hollow(tmp_path / "b.safetensors", 0)
    index(tmp_path, "a.safetensors", "b.safetensors", "a.safetensors")
    assert incomplete(tmp_path) == []
    assert weight_bytes(tmp_path) == sum(path.stat().st_size for path in tmp_path.glob("*.safetensors"))


def test_what_safetensors_writes_counts_as_whole():
    assert incomplete(DEMO / "target") == []


def test_a_file_of_the_index_that_is_not_there_is_named(tmp_path):
    hollow(tmp_path / "a.safetensors", 64)
    index(tmp_path, "a.safetensors", "b.safetensors")
    assert incomplete(tmp_path) == ["b.safetensors is missing"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"", "cut short"),
        (b"\xff" * 40, "cut short or no safetensors"),
        (b"\x04\0\0\0\0\0\0\0nope", "no safetensors file"),
    ],
)
def test_what_is_no_weight_file_is_told_apart(tmp_path, content, said):
    (tmp_path / "model.safetensors").write_bytes(content)
    (trouble,) = incomplete(tmp_path)
    assert said in trouble


@pytest.mark.parametrize("change", [-1, 1])
def test_a_download_that_stopped_is_seen_by_its_size(tmp_path, change):
    path = tmp_path / "model.safetensors"
    hollow(path, 64)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + change)
    (trouble,) = incomplete(tmp_path)
    assert "its header says" in trouble


def test_an_empty_folder_and_a_broken_index_are_told(tmp_path):
    assert incomplete(tmp_path) == ["no *.safetensors file"]
    (tmp_path / INDEX).write_text("{}")
    assert "is no index" in incomplete(tmp_path)[0]
