"""config.json on disk: read, unwrapped, fingerprinted, and normalised where the layout asks for it."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import CheckpointError
from .reference import is_reference_form, normalise_reference

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ConfigSource:
    """A config.json as found, ready for `parse_config`."""

    where: str  # the file, for errors
    raw: dict[str, Any]  # normalised if in reference form
    sha256: str  # of the file's bytes
    notes: tuple[str, ...]  # what the normalisation changed, one sentence each


def read_source(folder: Path) -> ConfigSource:
    """Read `folder/config.json`. Raises CheckpointError when there is none or it is no JSON."""
    path = folder / "config.json"
    if not folder.is_dir():
        raise CheckpointError(str(folder), "no such folder", hint="pass the folder that holds config.json")
    try:
        data = path.read_bytes()
        raw = json.loads(data)
    except FileNotFoundError:
        raise CheckpointError(str(path), "no such file", hint="is this a checkpoint folder?") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(str(path), "is no JSON", found=str(error)) from error
    notes: tuple[str, ...] = ()
    if is_reference_form(folder):
        raw, notes = normalise_reference(raw, folder)
        for note in notes:
            _log_once(f"{folder}: {note}")
    return ConfigSource(str(path), raw, hashlib.sha256(data).hexdigest(), notes)


@lru_cache(maxsize=256)
def _log_once(message: str) -> None:
    logger.warning(message)
