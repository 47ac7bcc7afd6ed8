"""A copy of the installed SGLang with the source patches applied; and the hooks, importable without being installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
REPLAY = ROOT / "sglang-patches" / "replay"
PATCHES = sorted(REPLAY.glob("*.patch"))


def installed() -> Path:
    """The folder that holds `sglang/`."""
    spec = importlib.util.find_spec("sglang")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parents[1]


def files_of(patch: Path) -> list[str]:
    return [line.split()[1].removeprefix("b/") for line in patch.read_text().splitlines() if line.startswith("+++ ")]


def apply(patch: Path, folder: Path, *options: str) -> subprocess.CompletedProcess:
    command = ["patch", "-p1", "--batch", "--fuzz=0", "-i", str(patch), *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def copied(folder: Path, whole: bool = False) -> Path:
    """The patched files as copies in `folder`; whole: and links to everything else."""
    if whole:
        subprocess.run(["cp", "-rs", str(installed() / "sglang"), str(folder)], check=True)
    for name in {name for patch in PATCHES for name in files_of(patch)}:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.write_bytes((installed() / name).read_bytes())
    return folder


def environment(overlay: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{overlay}:{ROOT}"}


def hooks() -> ModuleType:
    """The package `sglang_gdn_replay`."""
    if str(REPLAY) not in sys.path:
        sys.path.append(str(REPLAY))
    import sglang_gdn_replay

    return sglang_gdn_replay


@contextmanager
def installed_hooks() -> Iterator[None]:
    """Both hooks in this process, as SGLang applies them, and gone again."""
    from sglang.srt.plugins.hook_registry import HookRegistry

    module = hooks()
    from sglang_gdn_replay.sources import COMMIT, POOL, find

    kept = {place: find(place) for place in (POOL, COMMIT)}
    module.register()
    HookRegistry.apply_hooks()
    yield
    for place, original in kept.items():
        owner, _, name = place.rpartition(".")
        setattr(find(owner), name, original)
        HookRegistry._hooks.pop(place.replace(":", "."), None)
        HookRegistry._patched.discard(place.replace(":", "."))
