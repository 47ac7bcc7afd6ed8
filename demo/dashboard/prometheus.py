"""A Prometheus of our own for the length of a run, and what it answers."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from sglang_dspine.errors import DSpineError
from sglang_dspine.serve.port import free_port

SCRAPE_S = 5  # as CONFIG has it
RATE_S = 4 * SCRAPE_S  # what Grafana's $__rate_interval is at the least
CONFIG = Path(__file__).resolve().parents[2] / "docker" / "monitoring" / "prometheus.yml"
TARGET = "127.0.0.1:30000"  # there


@dataclass(frozen=True)
class Series:
    labels: dict[str, str]
    seconds: list[float]  # since the first sample that was asked for
    values: list[float]  # NaN where a ratio has nothing to divide by


@contextmanager
def prometheus(endpoint: str, folder: Path) -> Iterator[str]:
    """The address of a Prometheus with the configuration of docker/, reading `endpoint`/metrics; its data lies in
    `folder`. Raises DSpineError."""
    tool = shutil.which("prometheus")
    if tool is None:
        raise DSpineError("found no prometheus; install it (Debian, Ubuntu: apt-get install prometheus)")
    config, port = folder / "prometheus.yml", free_port()
    config.write_text(CONFIG.read_text().replace(TARGET, endpoint.removeprefix("http://")))
    words = [tool, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [*words, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        _wait(f"http://127.0.0.1:{port}", process, folder / "prometheus.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path, limit_s: float = 60.0) -> None:
    end = time.monotonic() + limit_s
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(f"{url}/-/ready", timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise DSpineError(f"prometheus did not get ready: {log.read_text()[-500:]}")


def ask(url: str, expression: str, start: float, end: float) -> list[Series]:
    """A range query from `start` to `end` (Unix seconds), one point a scrape. Raises DSpineError when it is refused."""
    query = expression.replace("$__rate_interval", f"{RATE_S}s")
    asked: dict[str, str | float] = {"query": query, "start": start, "end": end, "step": SCRAPE_S}
    answer = httpx.get(f"{url}/api/v1/query_range", params=asked, timeout=60, trust_env=False).json()
    if answer["status"] != "success":
        raise DSpineError(f"{query}: {answer.get('error')}")
    return [_series(one["metric"], one["values"], start) for one in answer["data"]["result"]]


def scrapes(url: str, start: float, end: float) -> tuple[int, int]:
    """How many scrapes were answered, and how many there were. Raises DSpineError when none was answered."""
    seen = [value for series in ask(url, "up", start, end) for value in series.values]
    if not any(seen):
        targets = httpx.get(f"{url}/api/v1/targets", timeout=60, trust_env=False).json()["data"]["activeTargets"]
        raise DSpineError(
            f"prometheus read nothing: {[target['lastError'] for target in targets]}; is --enable-metrics on?"
        )
    return round(sum(seen)), len(seen)


def _series(labels: dict[str, str], points: Sequence[tuple[float, str]], start: float) -> Series:
    return Series(labels, [at - start for at, _ in points], [float(value) for _, value in points])
