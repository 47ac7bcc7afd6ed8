"""Round cost of DSPINE beside DFlash2 in real servers, random weights at 27B shape, one GPU.

    python -m sglang_dspine.bench.rounds OUT --pair dspine [--contexts 1024,8192] [--users 1,8,16,32]
    python -m sglang_dspine.bench.rounds OUT --pair dspark
    python -m sglang_dspine.bench.rounds OUT --pair plain

Both servers of a pair stay resident and are visited A B B A; graphs and the overlap schedule are on. Each pair has
DFLASH with a DFlash2-shaped drafter as its anchor. Weights are random: accepted lengths mean nothing, and the cost of a
round hardly depends on them. OUT/rounds.csv is added to; OUT/rounds.md and OUT/rounds.png are made from it, to be
published as benchmarks/h200-rounds.*. Two servers take most of an H200; `--tokens` and `--fraction` set their share.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import typer

from ...serve.health import wait_healthy
from ...serve.port import free_port
from ...serve.server import Server
from .arms import PAIRS, WAYS, Room, Way, command, row_name
from .measure import LONG, Rounds, Sample, force_width, has_table, load, memory_gb, pair, prompts, rounds_of
from .report import Row, floor_ms, markdown, merged, plot, read_csv, write_csv
from .shapes import write_shapes
from .trace import Profile, profile_of, read_trace


@contextlib.contextmanager
def served(names: list[str], out: Path, room: Room, limit: float) -> Iterator[dict[str, httpx.Client]]:
    """A client of each server. They start one after the other: SGLang sizes its pools by what is free then."""
    with contextlib.ExitStack() as stack:
        clients = {}
        for name in names:
            url = f"http://127.0.0.1:{(port := free_port())}"
            begin = time.monotonic()
            server = stack.enter_context(Server(command(name, out / "shapes", port, room), out / f"{name}.log"))
            server.start()
            wait_healthy(server, url, limit)
            print(f"{name} up after {time.monotonic() - begin:.0f} s", flush=True)
            http = httpx.Client(base_url=url, timeout=600, trust_env=False, limits=httpx.Limits(max_connections=64))
            clients[name] = stack.enter_context(http)
        yield clients


def profiled(http: httpx.Client, way: Way, context: int, users: int, folder: Path) -> Profile | None:
    """Profile some rounds of one load; None where the server writes no trace."""
    where = folder / f"{way.name}-{context}-{users}"
    where.mkdir(parents=True, exist_ok=True)
    requests = prompts(users, context, 5)
    body = {"output_dir": str(where), "num_steps": 40, "activities": ["CPU", "GPU"]}
    http.post("/start_profile", json=body)
    load(http, requests, LONG)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        traces = sorted(where.rglob("*.trace.json.gz"))
        if traces:
            time.sleep(2)  # written to its end
            return profile_of(read_trace(traces[0]), way.width != 1)
        time.sleep(0.5)
    return None


def visit(http: httpx.Client, way: Way) -> None:
    if way.server == "dspine":
        force_width(http, way.width)


def measured(
    clients: dict[str, httpx.Client], ways: list[Way], context: int, users: int, repetitions: int
) -> dict[str, Rounds]:
    """Ways there and back again."""
    samples: dict[str, list[tuple[Sample, Sample]]] = {way.name: [] for way in ways}
    for way in ways:  # each batch size once, not measured
        visit(clients[way.server], way)
        pair(clients[way.server], users, context, seed=1)
    for repetition in range(repetitions):
        for way in ways if repetition % 2 == 0 else reversed(ways):
            visit(clients[way.server], way)
            samples[way.name].append(pair(clients[way.server], users, context, seed=100 + repetition))
    return {name: rounds_of(found) for name, found in samples.items()}


def main(
    out: Path,
    pair_name: str = typer.Option("dspine", "--pair", help=f"One of {', '.join(PAIRS)}."),
    contexts: str = "1024,8192",
    users: str = "1,8,16,32",
    repetitions: int = typer.Option(5, help="Per cell."),
    bandwidth: float = typer.Option(4.8, help="TB/s of the floors: the copy rate that bench.stages measured."),
    tokens: int = typer.Option(300_000, help="Of each server's KV pool."),
    fraction: float = typer.Option(0.42, help="--mem-fraction-static of each server."),
    limit: float = typer.Option(300, help="Seconds a server may take to start."),
    profile: bool = typer.Option(True, help="Count launches and time the draft by SGLang's profiler."),
    extra: str = typer.Option("", help="SGLang arguments of both servers."),
) -> None:
    """Measure one pair."""
    write_shapes(out / "shapes")
    ways = [way for way in WAYS if way.name in PAIRS[pair_name]]
    sizes = [int(n) for n in users.split(",")]
    room = Room(fraction, max(sizes), tokens, tuple(extra.split()))
    rows: list[Row] = []
    with served(list(dict.fromkeys(way.server for way in ways)), out, room, limit) as clients:
        memory = {name: memory_gb(http) for name, http in clients.items()}
        if "dspine" in clients and not has_table(clients["dspine"]):
            ways = [way for way in ways if way.width]
            print("dspine-table left out: DSPINE_SPS_TABLE names no table for this GPU", flush=True)
        for context in (int(c) for c in contexts.split(",")):
            for n in sizes:
                found = measured(clients, ways, context, n, repetitions)
                for way in ways:
                    visit(clients[way.server], way)
                    seen = profiled(clients[way.server], way, context, n, out / "profiles") if profile else None
                    row = row_of(way, context, n, found[way.name], seen, memory[way.server], bandwidth * 1e12)
                    rows.append(replace(row, arm=row_name(way.name, pair_name)))
                    print(rows[-1], flush=True)
                    write_csv(out / "rounds.csv", merged(read_csv(out / "rounds.csv"), rows))
    everything = read_csv(out / "rounds.csv")
    (out / "rounds.md").write_text(markdown(everything))
    if not plot(everything, out / "rounds.png"):
        print("no plot: matplotlib is not installed")


def row_of(
    way: Way, context: int, users: int, rounds: Rounds, seen: Profile | None, memory: float | None, bandwidth: float
) -> Row:
    floor = None
    if way.width > 1:
        floor = floor_ms(users, way.width, context, way.window, way.bridge, bandwidth)[0]
    draft, launches = (None, None) if seen is None else (seen.draft_ms, seen.launches)
    return Row(way.name, context, users, way.width, *rounds.ms, draft, floor, rounds.tok_s, launches, memory)


if __name__ == "__main__":
    typer.run(main)
