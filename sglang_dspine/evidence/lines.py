"""Files that grow line by line while something is measured, and survive a kill."""

from __future__ import annotations

import os
from pathlib import Path


def append_line(path: Path, line: str) -> None:
    """Add a line; behind one that a kill cut short, on a new line: readers leave out what is no JSON."""
    with path.open("ab+") as file:
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                line = f"\n{line}"
        file.write(f"{line}\n".encode())
