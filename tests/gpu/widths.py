"""Tune the verify widths of a 27B-shaped server on one GPU, then compare the table with every fixed width.

    python -m tests.gpu.widths tune OUT       # -> OUT/tune: cells, report, plots; sps-tuning/sps-h200.json
    python -m tests.gpu.widths compare OUT    # interleaved -> benchmarks/h200-widths.csv
    python -m tests.gpu.widths start OUT      # only the server, left running for a later `tune`
    python -m tests.gpu.widths stop OUT
    python -m tests.gpu.widths all OUT        # tune and compare, for machines that allow a quarter of an hour a command

`tune` and `compare` are one command of less than ten minutes each and start and end their own server; `tune` takes one
that `start` has left, and goes on where a killed run was. Both copies of a result lie in OUT too, for machines whose
checkout does not come back.

Weights are random, so accepted lengths are simulated from the published profile; round times are what is measured.
`compare` serves by the table that `tune` wrote: at each number of users the policy `table` and every forced width,
there and back again in one server. Its tokens per second are what the profile gives at the measured round time.
Exit status 0: the table's choice is at no number of users worse than the best fixed width beyond the spread.

Environment: MODELS (folder with target and dspine; made in OUT if unset), USERS, WIDTHS, QUANT (fp8 for an
online FP8 target), VISITS, ROUNDS, CONTEXT, ARGS (more arguments of SGLang), LIMIT (seconds for the server to start).
"""

from __future__ import annotations

import csv
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sglang_dspine.bench.rounds.shapes import write_shapes
from sglang_dspine.tuning.acceptance import PUBLISHED
from sglang_dspine.tuning.cells import Cell
from sglang_dspine.tuning.order import there_and_back
from sglang_dspine.tuning.server import ServerBench
from sglang_dspine.widths.acceptance import expected_length
from sglang_dspine.widths.parse import load_table

from .servers import Server, start_all

ROOT = Path(__file__).resolve().parents[2]
PORT = int(os.environ.get("PORT", "30140"))
USERS = [int(n) for n in os.environ.get("USERS", "1,2,4,8,16,32").split(",")]
WIDTHS = [int(n) for n in os.environ.get("WIDTHS", "1,2,4,8,12,16").split(",")]
VISITS, ROUNDS = int(os.environ.get("VISITS", "5")), int(os.environ.get("ROUNDS", "24"))
CONTEXT = int(os.environ.get("CONTEXT", "1024"))
TABLE, CSV = ROOT / "sps-tuning" / "sps-h200.json", ROOT / "benchmarks" / "h200-widths.csv"
POLICY = 0  # in the place of a width: none forced, the policy chooses
FIELDS = ("users", "width", "step_ms", "step_ms_min", "step_ms_max", "tok_s", "chosen")


def make_server(out: Path, table: Path | None = None) -> Server:
    models = Path(os.environ.get("MODELS", out / "models"))
    if not (models / "target").is_dir():
        write_shapes(models)
    args = [
        "--model-path", str(models / "target"), "--load-format", "dummy", "--skip-tokenizer-init",
        "--speculative-algorithm", "DSPINE", "--speculative-draft-model-path", str(models / "dspine"),
        "--speculative-draft-load-format", "dummy", "--speculative-draft-model-quantization", "fp8",
        "--enable-linear-replayssm-spec", "--mamba-ssm-dtype", "bfloat16",
        "--mamba-radix-cache-strategy", "extra_buffer_lazy", "--context-length", "32768",
        "--max-running-requests", str(max(USERS)), "--cuda-graph-bs-decode", *map(str, USERS),
        "--cuda-graph-backend-prefill=disabled",
    ]  # fmt: skip
    if os.environ.get("QUANT"):
        args += ["--quantization", os.environ["QUANT"]]
    args += shlex.split(os.environ.get("ARGS", ""))
    env = {"DSPINE_WIDTHS": ",".join(map(str, WIDTHS)), "DSPINE_SIMULATE_ACCEPTANCE": ",".join(map(str, PUBLISHED))}
    env["DSPINE_WIDTH_POLICY"] = "table" if table else "fixed"
    if table:
        env["DSPINE_SPS_TABLE"] = str(table)
    return Server("widths", PORT, args, out, env)


def start(out: Path, table: Path | None = None) -> Server | None:
    server = make_server(out, table)
    if not start_all([server], float(os.environ.get("LIMIT", "420"))):
        server.stop()
        return None
    assert server.process is not None
    (out / "widths.pid").write_text(str(server.process.pid))
    announced = [line for line in server.log().splitlines() if "DSPINE: " in line and "captured the" not in line]
    print("\n".join(line[:240] for line in announced[-16:]), flush=True)
    return server


def stop(out: Path) -> None:
    """The server of `start`, in whichever command."""
    path = out / "widths.pid"
    if path.exists():
        try:
            os.killpg(int(path.read_text()), signal.SIGKILL)
            time.sleep(3)  # the driver takes its memory back
        except ProcessLookupError:
            pass
        path.unlink()


@contextmanager
def serving(out: Path, table: Path | None = None) -> Iterator[ServerBench]:
    """One that runs without a table may be left over from `start`; with a table always a new one."""
    if table is None and make_server(out).healthy():
        yield bench()
        return
    stop(out)
    if start(out, table) is None:
        raise SystemExit(1)
    try:
        yield bench()
    finally:
        stop(out)


def bench() -> ServerBench:
    return ServerBench(f"http://127.0.0.1:{PORT}", prompt_tokens=CONTEXT, last_id=200_000)


def tune(out: Path) -> int:
    begin = time.time()
    with serving(out) as server:
        up = time.time() - begin
        command = [
            sys.executable, str(ROOT / "sps-tuning" / "tune_sps.py"), "--url", server.url, "--out", str(out / "tune"),
            "--batches", ",".join(map(str, USERS)), "--widths", ",".join(map(str, WIDTHS)), "--visits", str(VISITS),
            "--rounds", str(ROUNDS), "--prompt-tokens", str(CONTEXT), "--acceptance", "published",
            "--table", str(TABLE),
        ]  # fmt: skip
        status = subprocess.run(command).returncode
        (out / "state.json").write_text(json.dumps(server.state(), indent=1))
    print(f"server {up:.0f} s, tuner {time.time() - begin - up:.0f} s", flush=True)
    if status == 0:
        shutil.copy(TABLE, out / TABLE.name)
        print((out / "tune" / "REPORT.md").read_text(), flush=True)
    return status


def compare(out: Path) -> int:
    path = TABLE if TABLE.exists() else out / TABLE.name
    if not path.exists():
        print(f"{path} is not there: run `tune` first")
        return 2
    table, arms = load_table(path), [POLICY, *WIDTHS]
    rows, worse = [], []
    with serving(out, path) as server:
        for users in USERS:
            cells = measure(server, users, arms)
            rows += [row(cells[arm], arm, table.width_of(users)) for arm in arms]
            worse += judge(rows[-len(arms) :])
            save(rows, out)
        (out / "state-table.json").write_text(json.dumps(server.state(), indent=1))
    print("\n".join(worse) or "the table's choice is at no number of users worse than the best fixed width")
    return 1 if worse else 0


def measure(server: ServerBench, users: int, arms: list[int]) -> dict[int, Cell]:
    cells = {arm: Cell(users, arm) for arm in arms}
    with server.load(users) as load:
        for arm in arms:
            load.read(arm, 6)
        for arm in there_and_back(arms, VISITS):
            cells[arm].visits.append(load.read(arm, ROUNDS).ms)
    return cells


def row(cell: Cell, arm: int, chosen: int) -> dict[str, Any]:
    width = arm or chosen
    tokens = 1e3 * cell.batch * expected_length(PUBLISHED, width) / cell.ms
    values = (
        cell.batch, width, f"{cell.ms:.3f}", f"{min(cell.visits):.3f}", f"{max(cell.visits):.3f}", f"{tokens:.1f}",
        int(arm == POLICY),
    )  # fmt: skip
    return dict(zip(FIELDS, values, strict=True))


def judge(rows: list[dict[str, Any]]) -> list[str]:
    """A line for the policy's row if a fixed width is better than it by more than both spreads allow."""
    mine = next(r for r in rows if r["chosen"])
    best = max((r for r in rows if not r["chosen"]), key=lambda r: float(r["tok_s"]))
    print(
        f"{mine['users']:>2} users: table width {mine['width']} {mine['step_ms']} ms [{mine['step_ms_min']}-"
        f"{mine['step_ms_max']}] {mine['tok_s']} tok/s; best fixed width {best['width']} {best['tok_s']} tok/s",
        flush=True,
    )
    highest_of_mine = float(mine["tok_s"]) * float(mine["step_ms"]) / float(mine["step_ms_min"])
    lowest_of_best = float(best["tok_s"]) * float(best["step_ms"]) / float(best["step_ms_max"])
    if highest_of_mine >= lowest_of_best:
        return []
    return [
        f"{mine['users']} users: width {best['width']} is better than the table's {mine['width']} beyond the spread"
    ]


def save(rows: list[dict[str, Any]], out: Path) -> None:
    for path in (CSV, out / CSV.name):
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)


def main() -> int:
    action, out = sys.argv[1], Path(sys.argv[2]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    if action == "start":
        return 0 if start(out) is not None else 1
    if action == "stop":
        stop(out)
        return 0
    if action == "all":
        return tune(out) or compare(out)
    return {"tune": tune, "compare": compare}[action](out)


if __name__ == "__main__":
    sys.exit(main())
