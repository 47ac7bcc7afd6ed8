"""`manifest.json` of a converted checkpoint: where it came from, what made it, and its files' checksums."""

from __future__ import annotations

import hashlib
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..errors import CheckpointError

MANIFEST = "manifest.json"
_BLOCK = 1 << 22


def file_entry(path: Path) -> dict[str, Any]:
    """{"bytes", "sha256"} of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def text_entry(text: str) -> dict[str, Any]:
    """The same of a text file that is still to be written."""
    data = text.encode()
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def versions() -> dict[str, str]:
    """Of everything that can change a bit of the result."""
    found = {"python": platform.python_version()}
    for package in ("sglang-dspine", "torch", "safetensors"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed as a package"
    return found


def render_manifest(source: dict[str, Any], result: dict[str, Any], files: dict[str, Any]) -> str:
    """No date and no path: the same conversion gives the same manifest."""
    content = {"manifest": 1, "source": source, "result": result, "made_with": versions(), "files": files}
    return json.dumps(content, indent=1) + "\n"


def recorded_rounding(folder: Path) -> str | None:
    """How the values of a converted folder were last rounded to FP8, in this conversion or one before it; None: never,
    or nothing says so."""
    path = folder / MANIFEST
    made = json.loads(path.read_bytes()) if path.is_file() else None
    while isinstance(made, dict):
        if rounding := made.get("result", {}).get("rounding"):
            return str(rounding)
        made = made.get("source", {}).get("manifest")
    return None


def check_manifest(folder: Path) -> list[CheckpointError]:
    """Files that are not what the folder's manifest says; nothing for a folder without one."""
    path = folder / MANIFEST
    if not path.exists():
        return []
    try:
        files = json.loads(path.read_bytes())["files"]
        entries = {name: (int(entry["bytes"]), str(entry["sha256"])) for name, entry in files.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        return [CheckpointError(str(path), "is no manifest", expected='{"files": {name: sums}}', found=repr(error))]
    problems = []
    for name, (size, digest) in sorted(entries.items()):
        file = folder / name
        if not file.is_file():
            problems.append(CheckpointError(str(file), f"is missing, {MANIFEST} lists it", expected=f"{size} bytes"))
            continue
        found = file_entry(file)
        if (found["bytes"], found["sha256"]) != (size, digest):
            problems.append(
                CheckpointError(
                    str(file),
                    f"is not the file that {MANIFEST} lists",
                    expected=f"{size} bytes, sha256 {digest}",
                    found=f"{found['bytes']} bytes, sha256 {found['sha256']}",
                    hint="copy or convert it again",
                )
            )
    return problems
