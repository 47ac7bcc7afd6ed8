"""Tensor parallelism on two GPUs: exactness against one rank, rounds against one rank and DFLASH, collectives counted.

    python -m tests.gpu.tp2 all OUT         # everything, meant to take less than 12 minutes
    python -m tests.gpu.tp2 start OUT       # or in two commands of less than ten: servers up and left running, E2 and
    python -m tests.gpu.tp2 measure OUT     # E4 begun; then their end, rounds, collectives, servers stopped

Demo pair: E2 (rows of verify over two ranks, control: plain decode on one) and E4 (sampled tokens over two ranks
against one rank's, in float16 with the head in float32). 27B shape, random FP8 weights: DSPINE over two ranks and over
one, DFLASH over two, all resident, visited there and back; graphs and the overlap schedule on. Results:
OUT/h200-tp2.csv, also as benchmarks/h200-tp2.csv; OUT/e2.json, OUT/e4.json. Exit status 0: E2 and E4 hold and every
cell was measured. Not run on GPUs yet.

NVLink multicast stays off: NCCL's, PyTorch's and NVSHMEM's switches are set for every server, and the command refuses
to run where one of them is set otherwise; FlashInfer's fused sums, which may use it, are switched off.

Environment: USERS, CONTEXT, VISITS, FRACTION (of each 27B server), LIMIT (seconds for all servers to start).
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from sglang_dspine.bench.collectives import counts, round_collectives
from sglang_dspine.bench.rounds.arms import Room, command
from sglang_dspine.bench.rounds.measure import LONG, Sample, force_width, load, pair, prompts, rounds_of
from sglang_dspine.bench.rounds.shapes import write_shapes
from sglang_dspine.bench.rounds.trace import collectives_of, graph_replays, read_trace

from .evidence import DEMO, SUITE, detach, joined
from .evidence import prompts as code_prompts
from .first_light import ROOT
from .servers import SMALL, Server, start_all

OFF = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
UNEVEN = {"SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK": "false"}  # servers of one rank lie beside those of two
TWO = ["--tp-size", "2", "--enforce-disable-flashinfer-allreduce-fusion"]
CSV = ROOT / "benchmarks" / "h200-tp2.csv"
FIELDS = (
    "arm", "ranks", "width", "users", "context", "round_ms", "round_ms_min", "round_ms_max", "tok_s", "all_reduces",
    "all_gathers", "broadcasts", "reckoned",
)  # fmt: skip
USERS = [int(n) for n in os.environ.get("USERS", "1,8").split(",")]
CONTEXT, VISITS = int(os.environ.get("CONTEXT", "1024")), int(os.environ.get("VISITS", "4"))
FRACTION = float(os.environ.get("FRACTION", "0.8"))
SETTINGS = ("temperature=1.0", "temperature=0.7 top_k=20 top_p=0.95")
LIMIT = float(os.environ.get("LIMIT", "520"))  # seconds for all servers to start
# arm, server, width, ranks
ARMS = (
    ("dspine-8", "dspine-2", 8, 2), ("dspine-16", "dspine-2", 16, 2), ("dflash-8", "dflash-2", 8, 2),
    ("dspine-8", "dspine-1", 8, 1), ("dspine-16", "dspine-1", 16, 1),
)  # fmt: skip


def environment() -> dict[str, str]:
    """Of every server. Exits where multicast is wanted: on shared hosts it can put the GPUs out of service."""
    wrong = {name: os.environ[name] for name, value in OFF.items() if os.environ.get(name, value) != value}
    if wrong:
        raise SystemExit(f"tp2: found {wrong}, expected {OFF}: unset them; this run must not use NVLink multicast")
    return OFF | UNEVEN


def demo_servers(out: Path) -> list[Server]:
    draft = ["--speculative-algorithm", "DSPINE", "--speculative-draft-model-path", DEMO[1]]
    fine = ["--dtype", "float16", "--enable-fp32-lm-head"]
    table = {
        "plain-1": SMALL,
        "demo-2": [*SMALL, *draft, *TWO],
        "fine-1": [*SMALL, *draft, *fine, "--base-gpu-id", "1"],
        "fine-2": [*SMALL, *draft, *fine, *TWO],
    }
    model, env = ["--model-path", DEMO[0]], environment()
    return [Server(name, 30300 + i, [*model, *args], out, env) for i, (name, args) in enumerate(table.items())]


def shape_servers(out: Path) -> list[Server]:
    """At 27B shape. Tokens and states are capped, so that the three may start at once: SGLang only asks that a fraction
    of what was free at its start be left, whatever the others have taken meanwhile."""
    found = []
    for i, name in enumerate(("dspine-2", "dflash-2", "dspine-1")):
        kind, _, ranks = name.partition("-")
        extra = tuple(TWO) if ranks == "2" else ()
        room = Room(FRACTION, max(USERS), 40_000, extra)
        words = command({"dflash": "dflash2"}.get(kind, kind), out / "shapes", 30310 + i, room)
        env = environment() | words.environment
        found.append(Server(name, 30310 + i, words.words[words.words.index("--model-path") :], out, env))
    return found


def start(out: Path) -> int:
    if not enough_gpus():
        return 2
    write_shapes(out / "shapes")
    begin, demo = time.time(), demo_servers(out)
    if not up(out, demo, begin):
        return 1
    detach(out, exactness(out))
    if not up(out, shape_servers(out), begin):
        return 1
    print(f"all servers up after {time.time() - begin:.0f} s", flush=True)
    return 0


def up(out: Path, servers: list[Server], begin: float) -> bool:
    """All of them within LIMIT seconds of `begin`, or none is left."""
    started = start_all(servers, max(1.0, begin + LIMIT - time.time()))
    note(out, servers)
    if len(started) == len(servers):
        return True
    stop(out, [*demo_servers(out), *shape_servers(out)])
    return False


def enough_gpus() -> bool:
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines()
    if len(listed) < 2:
        print(f"tp2: found {len(listed)} GPUs, expected two of one host")
    return len(listed) >= 2


def exactness(out: Path) -> dict[str, list[str]]:
    urls = {server.name: server.url for server in demo_servers(out)}
    settings = [word for setting in SETTINGS for word in ("--setting", setting)]
    return {
        "e2": [
            *SUITE, "e2", "--url", urls["demo-2"], "--control-url", urls["plain-1"], "--prompts",
            str(code_prompts(out)), "--json", str(out / "e2.json"),
        ],
        "e4": [
            *SUITE, "e4", "--url", urls["fine-2"], "--control-url", urls["fine-1"], "--prompts",
            str(code_prompts(out / "e4", count=64)), *settings, "--pilot", "1024", "--keep", "2", "--processes", "8",
            "--json", str(out / "e4.json"),
        ],
    }  # fmt: skip


def measure(out: Path) -> int:
    begin, servers = time.time(), shape_servers(out)
    passed = joined(out, ("e2", "e4"), begin + 150)  # rounds are timed when nothing else runs
    stop(out, demo_servers(out))
    clients = {server.name: httpx.Client(base_url=server.url, timeout=300, trust_env=False) for server in servers}
    try:
        rows = [row for users in USERS for row in cells(clients, users, out)]
    finally:
        stop(out, servers)
    save(rows, out)
    for row in rows:
        print(row, flush=True)
    return 0 if passed and len(rows) == len(ARMS) * len(USERS) else 1


def cells(clients: dict[str, httpx.Client], users: int, out: Path) -> list[dict[str, Any]]:
    """All arms at one number of users, there and back again, then a profile of each."""
    samples: dict[tuple[str, int], list[tuple[Sample, Sample]]] = {(name, ranks): [] for name, _, _, ranks in ARMS}
    for visit in range(-1, VISITS):  # the first one is not counted
        for name, server, width, ranks in ARMS if visit % 2 == 0 else reversed(ARMS):
            at(clients[server], server, width)
            found = pair(clients[server], users, CONTEXT, seed=100 + visit)
            if visit >= 0:
                samples[name, ranks].append(found)
    rows = []
    for name, server, width, ranks in ARMS:
        at(clients[server], server, width)
        where = out / "profiles" / f"{name}-{ranks}-{users}"
        seen = counted(clients[server], users, where) if ranks > 1 else None
        rows.append(row_of(name, ranks, width, users, samples[name, ranks], seen))
    return rows


def at(http: httpx.Client, server: str, width: int) -> None:
    if server.startswith("dspine"):
        force_width(http, width)


def counted(http: httpx.Client, users: int, folder: Path) -> dict[str, float] | None:
    """Collectives a round of rank 0, from SGLang's profile of a load; None without a trace."""
    folder.mkdir(parents=True, exist_ok=True)
    body = {"output_dir": str(folder), "num_steps": 20, "activities": ["CPU", "GPU"]}
    http.post("/start_profile", json=body).raise_for_status()
    load(http, prompts(users, CONTEXT, 5), LONG)
    traces = waited(lambda: sorted(folder.rglob("*TP-0*.trace.json.gz")), 30)
    if not traces:
        return None
    time.sleep(2)  # written to its end
    events = read_trace(traces[0])
    rounds = graph_replays(events) / 2  # the draft's graph and the target's
    return {kind: n / rounds for kind, n in collectives_of(events).items()} if rounds else None


def waited(look: Callable[[], list[Path]], seconds: float) -> list[Path]:
    end = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < end:
        time.sleep(0.5)
    return found


def row_of(
    name: str, ranks: int, width: int, users: int, samples: list[tuple[Sample, Sample]], seen: dict[str, float] | None
) -> dict[str, Any]:
    found = rounds_of(samples)
    reckoned = round_collectives(users, width, ranks) if ranks > 1 and name.startswith("dspine") else []
    kinds = ("all-reduce", "all-gather", "broadcast")
    sent = ["" if seen is None else f"{seen.get(kind, 0):.1f}" for kind in kinds]
    values = (
        name, ranks, width, users, CONTEXT, *(f"{ms:.3f}" for ms in found.ms), f"{found.tok_s:.1f}", *sent,
        sum(counts(reckoned).values()) if reckoned else "",
    )  # fmt: skip
    return dict(zip(FIELDS, values, strict=True))


def save(rows: list[dict[str, Any]], out: Path) -> None:
    with (out / CSV.name).open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    shutil.copy(out / CSV.name, CSV)
    base = {(r["users"], r["width"], r["ranks"]): float(r["round_ms"]) for r in rows if r["arm"].startswith("dspine")}
    gains = [base[users, width, 1] / ms for (users, width, ranks), ms in base.items() if ranks == 2]
    print(f"two ranks to one, DSPINE: {statistics.median(gains):.2f} times faster in the median cell", flush=True)


def note(out: Path, servers: list[Server]) -> None:
    """Remember the processes for a later command."""
    path = out / "servers.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known |= {server.name: server.process.pid for server in servers if server.process is not None}
    path.write_text(json.dumps(known))


def stop(out: Path, servers: list[Server]) -> None:
    """Servers of this command or an earlier one."""
    path = out / "servers.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    for server in servers:
        if server.name in known:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(known.pop(server.name), signal.SIGKILL)
    path.write_text(json.dumps(known))


def main() -> int:
    action, out = sys.argv[1], Path(sys.argv[2]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    if action == "all":
        return start(out) or measure(out)
    return {"start": start, "measure": measure}[action](out)


if __name__ == "__main__":
    sys.exit(main())
