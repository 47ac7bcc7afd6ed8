"""The table comes from the path given, else the checkpoint, else the package by the GPU's name, else nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sglang_dspine.widths.find import PACKAGED, find_table, packaged_table
from sglang_dspine.widths.parse import TableError, load_table

GPU = "NVIDIA Test"


def put(path: Path, width: int, gpu: str = GPU) -> Path:
    path.parent.mkdir(exist_ok=True)
    raw = {"version": 1, "widths": [width], "provenance": {"gpu": gpu, "source": "a test"}}
    path.write_text(json.dumps(raw))
    return path


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.delenv("DSPINE_SPS_TABLE", raising=False)
    put(tmp_path / "packaged" / "sps-test.json", 2)
    (tmp_path / "draft").mkdir()

    def find(flag=None, gpu=GPU):
        table = find_table(flag, tmp_path / "draft", gpu, tmp_path / "packaged")
        return table and table.width_of(1)

    find.folder = tmp_path
    return find


def test_the_packaged_table_of_this_gpu_is_the_last_resort(place):
    assert place() == 2
    assert place(gpu="NVIDIA Other") is None and place(gpu=None) is None


def test_a_table_beside_the_checkpoint_comes_before_the_packaged_one(place):
    put(place.folder / "draft" / "sps.json", 3)
    assert place() == 3


def test_a_path_that_was_given_comes_first(place, monkeypatch):
    put(place.folder / "draft" / "sps.json", 3)
    given = str(put(place.folder / "mine.json", 4))
    assert place(flag=given) == 4
    monkeypatch.setenv("DSPINE_SPS_TABLE", given)
    assert place() == 4 and place(flag=given) == 4


def test_two_different_paths_are_refused(place, monkeypatch):
    monkeypatch.setenv("DSPINE_SPS_TABLE", str(put(place.folder / "mine.json", 4)))
    with pytest.raises(TableError, match="leave one of them out"):
        place(flag="other.json")


def test_a_path_without_a_table_is_an_error_and_not_the_next_place(place):
    with pytest.raises(TableError, match=r"none\.json"):
        place(flag=str(place.folder / "none.json"))


def test_every_packaged_table_is_read_and_says_its_gpu():
    paths = sorted(PACKAGED.glob("*.json"))
    assert paths
    for path in paths:
        table = load_table(path)
        assert packaged_table(table.gpu) == table


def test_the_gb10_table_is_the_published_one_and_says_that_it_is_inherited():
    table = packaged_table("NVIDIA GB10")
    assert [table.width_of(b) for b in (*range(1, 9), 32)] == [16, 16, 8, 8, 16, 16, 8, 8, 8]
    assert "inherited" in table.provenance["status"]
