"""The API key on its way to SGLang: by a file of its owner's instead of an argument that `ps` shows to everyone."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from .failure import ServeError

FLAG, CONFIG = "--api-key", "--config"


def hide_key(words: Sequence[str], path: Path) -> list[str]:
    """`--api-key KEY` becomes `--config FILE`, which SGLang reads as arguments. Raises ServeError beside a --config of
    the user's: SGLang takes one."""
    words = list(words)
    if FLAG not in words:
        return words
    if CONFIG in words:
        raise ServeError(
            f"API_KEY with {CONFIG}: SGLang reads one such file; put `api-key: ...` into yours, unset API_KEY"
        )
    at = words.index(FLAG)
    write_private(path, f"api-key: {json.dumps(words[at + 1])}\n")
    return [*words[:at], CONFIG, str(path), *words[at + 2 :]]


def write_private(path: Path, text: str) -> None:
    """Readable by its owner alone from the first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
