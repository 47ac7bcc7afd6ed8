"""A folder that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.filesize import decimal

from ..errors import DSpineError

SUFFIX = ".partial"


def leftovers(destination: Path) -> list[Path]:
    """Folders that killed runs for the same destination left beside it."""
    return sorted(destination.parent.glob(f".{destination.name}.*{SUFFIX}"))


def check_destination(destination: Path, need: int) -> None:
    """Whether a new folder with `need` bytes can be made there; makes nothing.

    Raises:
        DSpineError: it exists, what is above it is no folder that may be written, or the disk has no room.
    """
    if destination.exists() or destination.is_symlink():
        raise DSpineError(f"{destination}: exists, and is never overwritten; name another folder or remove it")
    above = next(path for path in destination.absolute().parents if path.exists() or path.is_symlink())
    if not above.is_dir():
        raise DSpineError(f"{destination}: expected a folder above it, found that {above} is none; name another place")
    if not os.access(above, os.W_OK | os.X_OK):
        raise DSpineError(f"{destination}: {above} may not be written by this user; name another place")
    free = shutil.disk_usage(above).free
    if free < need:
        raise DSpineError(
            f"{destination}: needs {decimal(need)} of disk, {above} has {decimal(free)} free; make room or name a "
            "place on another disk"
        )


@contextmanager
def staging(destination: Path, need: int) -> Iterator[Path]:
    """A temporary folder beside `destination` that takes its name when the block ends; removed if the block fails.

    So are the folders above it that were not there.

    need: bytes that will be written.
    Raises:
        DSpineError: see `check_destination`.
    """
    check_destination(destination, need)
    parent = destination.parent
    made = [path for path in (parent, *parent.parents) if not path.exists()]  # the innermost first
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", suffix=SUFFIX, dir=parent))
    try:
        yield folder
        mask = os.umask(0)
        os.umask(mask)
        folder.chmod(0o777 & ~mask)  # mkdtemp's is for its owner alone
        sync_folder(folder)
        if destination.exists():
            raise DSpineError(f"{destination}: came into being meanwhile, and is never overwritten")
        folder.rename(destination)
        sync_folder(parent)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # one that somebody else uses meanwhile is not empty
            for path in made:
                path.rmdir()
        raise


def write_text(path: Path, text: str) -> None:
    """Write a file and see it on the disk."""
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the folder's entries durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
