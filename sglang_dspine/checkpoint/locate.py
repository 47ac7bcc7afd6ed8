"""Turn what the user named (a folder or a repository id) into a local checkpoint folder."""

from __future__ import annotations

from pathlib import Path

from ..errors import CheckpointError


def locate_checkpoint(path: str, revision: str | None = None, kind: str = "a drafter checkpoint") -> Path:
    """Local folder of a checkpoint; a repository id is fetched, or found in the local cache.

    kind: of what, for the error.

    Raises:
        CheckpointError: neither a folder nor a repository that can be had.
    """
    folder = Path(path)
    if folder.is_dir():
        return folder
    if folder.exists() or path.startswith(("/", ".", "~")):
        raise CheckpointError(path, "is no folder", expected=f"the folder of {kind}, or a repository id")
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(path, revision=revision))
    except Exception as error:
        raise CheckpointError(
            path, f"no such folder, and no repository of this name could be had ({error})", hint="check the path"
        ) from error
