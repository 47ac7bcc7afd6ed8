"""Launches a round and the draft's share of it, from a profile that SGLang's own profiler wrote.

A decode round replays two captured graphs, the draft's and the target's verify; the draft's kernels are those of the
shorter one. Everything launched besides costs a launch each.
"""

from __future__ import annotations

import gzip
import json
import statistics
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaMemsetAsync")
GPU = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclass(frozen=True)
class Profile:
    """Of one round."""

    launches: float  # calls of the host that put work on the GPU
    draft_ms: float | None  # None: no two kinds of graphs, as in plain decode


def read_trace(path: Path) -> list[dict[str, Any]]:
    content = path.read_bytes()
    events: list[dict[str, Any]] = json.loads(gzip.decompress(content))["traceEvents"]
    return events


def profile_of(events: list[dict[str, Any]], speculative: bool) -> Profile | None:
    """None when the trace holds no graph replay."""
    calls = [e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver") and e["name"].startswith(LAUNCHES)]
    replays = {e["args"]["correlation"] for e in calls if e["name"].startswith("cudaGraphLaunch")}
    spans: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for e in events:
        correlation = e.get("args", {}).get("correlation")
        if e.get("cat") in GPU and correlation in replays:
            spans[correlation].append((e["ts"], e["ts"] + e["dur"]))
    if not spans:
        return None
    lasted = sorted(1e-3 * (max(end for _, end in s) - min(begin for begin, _ in s)) for s in spans.values())
    graphs = 2 if speculative else 1
    rounds = max(1, len(lasted) // graphs)
    draft = statistics.median(lasted[:rounds]) if speculative else None
    return Profile(len(calls) / rounds, draft)
