"""Launches a round and the draft's share of it, from a profile that SGLang's own profiler wrote.

A decode round replays two captured graphs, the draft's and the target's verify; the draft's kernels are those of the
shorter one. Everything launched besides costs a launch each.
"""

from __future__ import annotations

import gzip
import json
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..collectives import BROADCAST, GATHER, SUM

LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaMemsetAsync")
GPU = ("kernel", "gpu_memcpy", "gpu_memset")
# in the names of NCCL's, SGLang's and gloo's, without case and underscores
COLLECTIVES = {
    SUM: ("allreduce", "crossdevicereduce", "oneshotpush", "oneshotpull", "twoshotpull"),
    GATHER: ("allgather",),
    BROADCAST: ("broadcast",),
}


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


def graph_replays(events: list[dict[str, Any]]) -> int:
    """Of all graphs; a speculative round has two."""
    return sum(e.get("cat") in ("cuda_runtime", "cuda_driver") and "GraphLaunch" in e["name"] for e in events)


def collectives_of(events: list[dict[str, Any]]) -> Counter[str]:
    """Collectives by kind: NCCL's and SGLang's own kernels on a GPU, gloo's calls on a CPU."""
    found: Counter[str] = Counter()
    for event in events:
        name = str(event.get("name", ""))
        if event.get("cat") == "kernel" or name.startswith("gloo:"):
            plain = name.lower().replace("_", "")
            kind = next((kind for kind, words in COLLECTIVES.items() if any(word in plain for word in words)), None)
            if kind is not None and (name.startswith("gloo:") or "elementwise" not in plain):
                found[kind] += 1
    return found
