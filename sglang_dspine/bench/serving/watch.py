"""Free memory, GPU clocks and temperature while a load runs: lows and highs, what the machine lets us read."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

EVERY_S = 1.0
QUERY = "memory.free,clocks.sm,temperature.gpu,power.draw"
MEMINFO = Path("/proc/meminfo")


@dataclass
class Machine:
    """None: not readable here (no GPU, or one that shares the host's memory and does not say)."""

    host_free_low_gib: float | None = None
    gpu_free_low_gib: float | None = None
    clock_low_mhz: float | None = None
    clock_high_mhz: float | None = None
    temperature_high_c: float | None = None
    power_high_w: float | None = None
    samples: int = 0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def see(self, host_free_gib: float | None, gpu: tuple[float | None, ...] | None) -> None:
        self.samples += 1
        self.host_free_low_gib = _least(self.host_free_low_gib, host_free_gib)
        if gpu is not None:
            free, clock, temperature, power = gpu
            self.gpu_free_low_gib = _least(self.gpu_free_low_gib, None if free is None else free / 1024)
            self.clock_low_mhz = _least(self.clock_low_mhz, clock)
            self.clock_high_mhz = _most(self.clock_high_mhz, clock)
            self.temperature_high_c = _most(self.temperature_high_c, temperature)
            self.power_high_w = _most(self.power_high_w, power)


@contextlib.contextmanager
def watching(every_s: float = EVERY_S) -> Iterator[Machine]:
    """Sample until the block ends, in a thread of its own."""
    machine, done = Machine(), threading.Event()

    def sample() -> None:
        while True:
            machine.see(host_free_gib(), gpu_state())
            if done.wait(every_s):
                return

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield machine
    finally:
        done.set()
        thread.join()


def host_free_gib(meminfo: Path = MEMINFO) -> float | None:
    """Memory that can be had without swapping."""
    with contextlib.suppress(OSError):
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) / 2**20
    return None


def gpu_state() -> tuple[float | None, ...] | None:
    """Of the first GPU: MiB free, MHz, degrees, watts; None without nvidia-smi."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    asked = [tool, f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = answer.stdout.strip().splitlines()
    return parse_state(lines[0]) if answer.returncode == 0 and lines else None


def parse_state(line: str) -> tuple[float | None, ...]:
    """`81000, 1980, 41, 120.5` to numbers; what the driver does not know ("[N/A]") to None."""
    return tuple(_number(word) for word in line.split(","))


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _least(a: float | None, b: float | None) -> float | None:
    return min((x for x in (a, b) if x is not None), default=None)


def _most(a: float | None, b: float | None) -> float | None:
    return max((x for x in (a, b) if x is not None), default=None)
