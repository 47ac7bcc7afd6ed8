"""A destination appears whole or not at all."""

import os

import pytest

from sglang_dspine.checkpoint import staging as module
from sglang_dspine.checkpoint.staging import check_destination, leftovers, staging, write_text
from sglang_dspine.errors import DSpineError


def test_the_folder_appears_when_the_block_ends(tmp_path):
    destination = tmp_path / "new" / "drafter"
    with staging(destination, 1) as folder:
        write_text(folder / "file", "content")
        assert not destination.exists() and leftovers(destination) == [folder]
    assert (destination / "file").read_text() == "content" and leftovers(destination) == []
    mask = os.umask(0)
    os.umask(mask)
    assert destination.stat().st_mode & 0o777 == 0o777 & ~mask  # readable by whom the user lets read


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_leaves_nothing(tmp_path, error):
    for place in (tmp_path, tmp_path / "some" / "where"):
        with pytest.raises(error), staging(place / "drafter", 1) as folder:
            write_text(folder / "file", "content")
            raise error
        assert list(tmp_path.iterdir()) == []


def test_folders_above_that_somebody_else_uses_meanwhile_stay(tmp_path):
    with pytest.raises(RuntimeError), staging(tmp_path / "some" / "where" / "drafter", 1):
        (tmp_path / "some" / "theirs").touch()
        raise RuntimeError
    assert [path.name for path in tmp_path.rglob("*")] == ["some", "theirs"]


@pytest.mark.parametrize("kind", ["folder", "file", "dangling link"])
def test_what_exists_is_never_overwritten(tmp_path, kind):
    destination = tmp_path / "drafter"
    {"folder": destination.mkdir, "file": destination.touch, "dangling link": lambda: destination.symlink_to("no")}[
        kind
    ]()
    with pytest.raises(DSpineError, match="never overwritten"), staging(destination, 1):
        pass
    assert list(tmp_path.iterdir()) == [destination]


def test_what_came_into_being_meanwhile_is_kept(tmp_path):
    destination = tmp_path / "drafter"
    with pytest.raises(DSpineError, match="meanwhile"), staging(destination, 1):
        destination.mkdir()
        (destination / "theirs").touch()
    assert [path.name for path in destination.iterdir()] == ["theirs"] and leftovers(destination) == []


def test_a_full_disk_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: _Usage)
    for need, said in ((3_000_000_000, r"needs 3\.0 GB of disk, .* has 2\.0 MB free"), (2_100_000, r"needs 2\.1 MB")):
        with pytest.raises(DSpineError, match=said), staging(tmp_path / "drafter", need):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_place_below_a_file_or_in_a_folder_that_may_not_be_written_is_refused_by_name(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(DSpineError, match=r"expected a folder above it, found that .*file is none"):
        check_destination(tmp_path / "file" / "deep" / "drafter", 1)
    monkeypatch.setattr(module.os, "access", lambda path, mode: False)  # a test may run as root
    with pytest.raises(DSpineError, match="may not be written by this user"):
        check_destination(tmp_path / "new" / "drafter", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


class _Usage:
    free = 2_000_000
