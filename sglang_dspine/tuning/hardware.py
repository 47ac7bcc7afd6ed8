"""What a table is for: the GPU and driver, as nvidia-smi and torch know them, and the models."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ..checkpoint.fingerprint import fingerprint
from ..serve.hardware import find_gpu


def gpu_provenance() -> dict[str, str]:
    """`gpu` as torch names it, and `driver`; empty without a GPU in this machine."""
    gpu = find_gpu()
    tool = shutil.which("nvidia-smi")
    if gpu is None or tool is None:
        return {}
    asked = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    lines = subprocess.run(asked, capture_output=True, text=True).stdout.strip().splitlines()
    return {"gpu": gpu.name, "driver": lines[0] if lines else "unknown"}


def identity(model: str) -> str:
    """A model's name with, where its folder lies on this machine, its fingerprint."""
    folder = Path(model)
    if not (folder / "config.json").is_file():
        return model
    return f"{folder.name} ({fingerprint(folder)})"
