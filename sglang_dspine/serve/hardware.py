"""Which GPU is there, without importing torch."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass

from .failure import ServeError


@dataclass(frozen=True)
class Gpu:
    name: str
    capability: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.name} (sm_{self.capability[0]}{self.capability[1]})"


def find_gpu() -> Gpu | None:
    """The GPU that SGLang would take first, or None without one. Raises ServeError on an answer it cannot read."""
    tool = shutil.which("nvidia-smi")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if tool is None or visible in ("", "-1"):
        return None
    chosen = [] if visible is None else ["-i", visible.partition(",")[0]]
    asked = [tool, "--query-gpu=compute_cap,name", "--format=csv,noheader", *chosen]
    answer = subprocess.run(asked, capture_output=True, text=True)
    lines = answer.stdout.strip().splitlines()
    if answer.returncode != 0 or not lines:
        return None
    return parse_gpu(lines[0])


def parse_gpu(line: str) -> Gpu:
    """A line of nvidia-smi such as "12.1, NVIDIA GB10"."""
    number, _, name = line.partition(",")
    major, _, minor = number.strip().partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise ServeError(
            f"nvidia-smi answered {line!r}; expected a compute capability and a name, as in '12.1, NVIDIA GB10'. "
            "Update the driver"
        )
    return Gpu(name.strip(), (int(major), int(minor)))
