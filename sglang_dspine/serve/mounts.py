"""Which host folders a container must see for a checkpoint. They keep their paths, so commands read alike."""

from __future__ import annotations

import os
from pathlib import Path

from .failure import ServeError


def mount_root(folder: Path) -> Path:
    """The folder itself, or the nearest one above that also holds what its links point to: Hugging Face's cache keeps
    weights beside its snapshots. Raises ServeError when that would be a folder of the system."""
    folder = folder.absolute()
    places = {str(folder.resolve())}
    for entry in folder.iterdir():
        if entry.is_symlink() and entry.exists():
            places.add(str(entry.resolve().parent))
    root = Path(os.path.commonpath([str(folder), *places]))
    if len(root.parts) < 3:
        raise ServeError(
            f"{folder}: its files are links to places as far apart as {', '.join(sorted(places))}; "
            "copy the checkpoint into one folder (cp -rL)"
        )
    return root


def read_only(*folders: Path) -> list[str]:
    """`docker run` words; one mount where one root holds another."""
    roots = sorted({mount_root(folder) for folder in folders})
    kept = [root for root in roots if not any(other in root.parents for other in roots)]
    return [word for root in kept for word in ("--volume", f"{root}:{root}:ro")]
