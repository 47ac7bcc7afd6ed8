"""Driver and memory of the GPU that will serve. A GPU that shares the host's memory has no numbers of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .finding import FAIL, OK, WARN, Finding

CUDA_13_DRIVER = 580  # SGLang 0.5.23 is built for CUDA 13; its first driver branch
UNIFIED = {(12, 1), (11, 0), (8, 7)}  # GB10, Thor, Orin: host and GPU share one memory


@dataclass(frozen=True)
class Memory:
    """Bytes. total and free as SGLang will see them before it loads anything."""

    total: int
    free: int
    unified: bool
    source: str  # which figure this is


def host_memory(meminfo: Path = Path("/proc/meminfo")) -> Memory:
    """MemAvailable: what programs can have without swapping; SGLang uses it on GPUs that share it."""
    values = {}
    for line in meminfo.read_text().splitlines():
        name, _, rest = line.partition(":")
        values[name] = int(rest.split()[0]) * 1024
    return Memory(values["MemTotal"], values["MemAvailable"], True, "available memory of the host")


def find_memory(capability: tuple[int, int] | None) -> tuple[Memory, str | None]:
    """Memory, and the driver's version, None without a GPU."""
    if capability is None:
        return host_memory(), None
    answer = _ask("driver_version,memory.total,memory.free")
    driver, *numbers = (word.strip() for word in (answer or "").split(","))
    if capability in UNIFIED or len(numbers) != 2 or not all(word.isdecimal() for word in numbers):
        return host_memory(), driver or None
    total, free = (int(word) << 20 for word in numbers)
    return Memory(total, free, False, "free memory of the GPU"), driver


def _ask(fields: str) -> str | None:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    chosen = ["-i", visible.partition(",")[0]] if visible else []
    asked = [tool, f"--query-gpu={fields}", "--format=csv,noheader,nounits", *chosen]
    answer = subprocess.run(asked, capture_output=True, text=True)
    return answer.stdout.strip().splitlines()[0] if answer.returncode == 0 and answer.stdout.strip() else None


def check_driver(driver: str | None) -> Finding:
    if driver is None:
        return Finding(WARN, "driver", "no NVIDIA driver answers", "serving on the CPU is for trying it out")
    branch = driver.partition(".")[0]
    if branch.isdecimal() and int(branch) < CUDA_13_DRIVER:
        needed = f"SGLang 0.5.23 needs CUDA 13: install driver {CUDA_13_DRIVER} or newer"
        return Finding(FAIL, "driver", driver, needed)
    return Finding(OK, "driver", driver)
