"""Several of these commands at once on one GPU, for a machine that is lent by the minute. Never for timings.

    python -m tests.gpu.together OUT SECONDS NAME...      # NAME: fp8_served, width_sweep, operate, ...
    python -m tests.gpu.together OUT SECONDS 'NAME ARGS'  # ARGS with OUT in them name that command's folder

Each command gets the folder OUT/NAME as its one argument, unless ARGS says otherwise; its output is output.txt there.
What has not ended after SECONDS is stopped, its servers too. Prints a line a command and the end of what failed. Small
results (.json, .csv, .txt, .md below 1 MB) are copied to OUT/NAME.* so that one folder holds them all. Exit status 0:
every command's was.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

RESULTS, LARGEST = {".json", ".csv", ".txt", ".md"}, 1 << 20


@dataclass
class Job:
    name: str
    folder: Path
    process: subprocess.Popen
    begin: float
    seconds: float | None = None

    @property
    def output(self) -> Path:
        return self.folder / "output.txt"


def start(out: Path, words: list[str]) -> Job:
    name, arguments = words[0], words[1:]
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    given = [word.replace("OUT", str(folder)) for word in arguments] or [str(folder)]
    with (folder / "output.txt").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", f"tests.gpu.{name}", *given],
            stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env={**os.environ, "DSPINE_GPU_JOB": name},
        )  # fmt: skip
    return Job(name, folder, process, time.monotonic())


def members(name: str) -> list[int]:
    """Processes of a command, servers in sessions of their own too: they inherit the mark in their environment."""
    mark, found = f"DSPINE_GPU_JOB={name}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def end(job: Job, seconds: float = 20) -> None:
    """Stop whatever of it still runs: a server that a command left would hold memory that the next one needs.

    Until none is found: one killed may take a moment to die, and one that was just being started is seen only later.
    """
    deadline = time.monotonic() + seconds
    while (left := members(job.name)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    job.process.wait(seconds)


def collect(out: Path, job: Job) -> None:
    for path in job.folder.rglob("*"):
        if path.is_file() and path.suffix in RESULTS and path.stat().st_size < LARGEST:
            shutil.copyfile(path, out / f"{job.name}.{'.'.join(path.relative_to(job.folder).parts)}")


def main(out: Path, seconds: float, commands: list[str]) -> int:
    jobs = [start(out, shlex.split(command)) for command in commands]
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(job.seconds is None for job in jobs):
        for job in jobs:
            if job.seconds is None and job.process.poll() is not None:
                job.seconds = time.monotonic() - job.begin
                collect(out, job)
        time.sleep(1)
    failed = 0
    for job in jobs:
        status = job.process.poll()
        end(job)
        collect(out, job)
        took = "stopped" if job.seconds is None else f"exit status {status} after {job.seconds:.0f} s"
        print(f"{job.name}: {took}", flush=True)
        if status != 0:
            failed += 1
            print("\n".join(line[:300] for line in job.output.read_text(errors="replace").splitlines()[-25:]))
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    raise SystemExit(main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
