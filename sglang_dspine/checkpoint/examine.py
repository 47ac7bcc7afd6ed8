"""A checkpoint looked at without being loaded: what it holds, and all that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..config import DraftConfig, parse_config
from ..config.source import ConfigSource, read_source
from ..errors import CheckpointError
from ..headers import Stored
from .files import read_tensors
from .layouts import Layout, detect_layout
from .manifest import check_manifest
from .validate import check_headers, is_ignored
from .values import read_checked


@dataclass
class Examination:
    """Findings about one checkpoint folder. What could not be read is None or empty."""

    folder: Path
    source: ConfigSource | None = None
    config: DraftConfig | None = None
    layout: Layout | None = None
    tensors: dict[str, Stored] = field(default_factory=dict)  # by canonical name
    problems: list[CheckpointError] = field(default_factory=list)

    def raise_problems(self) -> None:
        if self.problems:
            raise CheckpointError.together(str(self.folder), self.problems)


def examine_headers(folder: str | Path) -> Examination:
    """Config and headers checked, no value read. Never raises CheckpointError: see `problems`."""
    seen = Examination(Path(folder))
    try:
        seen.source = read_source(seen.folder)
        seen.config = parse_config(seen.source.raw, seen.source.where)
    except CheckpointError as error:
        seen.problems += error.problems
    if not seen.folder.is_dir():
        return seen
    seen.tensors, unread = read_tensors(seen.folder)
    # a file that config.json's reader already stumbled over is not reported twice
    known = {str(problem) for problem in seen.problems}
    seen.problems += [problem for problem in unread if str(problem) not in known]
    if seen.tensors:
        seen.layout = detect_layout(seen.tensors)
        if seen.config is not None and not unread:
            seen.problems += check_headers(seen.folder, seen.config, seen.layout, seen.tensors)
    return seen


def examine(folder: str | Path) -> Examination:
    """Everything `load_checkpoint` would refuse, values included, and files that are not what a manifest says."""
    seen = examine_headers(folder)
    for name, stored in sorted(seen.tensors.items()):
        if not is_ignored(name):
            read_checked(name, stored, seen.problems)
    seen.problems += check_manifest(seen.folder)
    return seen
