"""The folder of records and logs, DSPINE_STATE: what a system refuses about it, told in one sentence."""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .failure import ServeError

FULL = (errno.ENOSPC, errno.EDQUOT)
BLOCK = 4096  # bytes: more than a record


@contextlib.contextmanager
def using(state: Path) -> Iterator[None]:
    """An OSError of the block, which reads or writes below `state`, becomes a ServeError that says what to do."""
    try:
        yield
    except OSError as error:
        todo = "free some room there, or name" if error.errno in FULL else "name"
        raise ServeError(
            f"DSPINE_STATE={state}, for records and logs, cannot be used: {error.strerror or error}; {todo} a folder "
            "that you can write to in DSPINE_STATE"
        ) from None


def require_usable(state: Path) -> None:
    """Raise ServeError unless files can be made in `state`, or where it would be made. Leaves nothing behind."""
    with using(state):
        place = next(folder for folder in (state, *state.absolute().parents) if folder.exists())
        with tempfile.TemporaryFile(dir=place, buffering=0) as file:
            file.write(bytes(BLOCK))
