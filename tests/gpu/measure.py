"""Speed and acceptance of the demo pair on a CUDA GPU, beside a DFlash-style drafter of the same data and budget.

    python -m tests.gpu.measure train OUT     # OUT/dflash: 1,972 steps, as demo/draft had
    python -m tests.gpu.measure accept OUT    # OUT/demo-acceptance.csv and its reports
    python -m tests.gpu.measure start OUT     # five servers side by side, left running
    python -m tests.gpu.measure bench OUT     # OUT/bench: users 1 to 32, five repetitions, A B B A; stops the servers

Each of less than ten minutes; `accept` and `bench` want `train` first, `bench` wants `start`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from .first_light import ROOT
from .servers import SMALL, Server, start_all

TARGET, DRAFT = (str(ROOT / "demo" / part) for part in ("target", "draft"))
POOL = ["--max-total-tokens", "65536"]
LOAD = "--users 1,4,8,16,32 -n 5 --conversations 32 --depth 2 --characters 200 --new-tokens 96 --ignore-eos"


def servers(out: Path) -> list[Server]:
    drafters = {"dflash": ("DFLASH", str(out / "dflash")), "dspine": ("DSPINE", DRAFT)}
    table: dict[str, list[str]] = {"plain": []}
    for name, (algorithm, folder) in drafters.items():
        draft = ["--speculative-algorithm", algorithm, "--speculative-draft-model-path", folder]
        table[name] = draft
        table[f"{name}-8"] = [*draft, "--speculative-num-draft-tokens", "8"]
    base = ["--model-path", TARGET, *SMALL, *POOL]
    return [Server(name, 30220 + i, [*base, *extra], out) for i, (name, extra) in enumerate(table.items())]


def run(*words: str) -> int:
    return subprocess.run([sys.executable, "-m", *words], cwd=ROOT).returncode


def train(out: Path) -> int:
    return run("demo.train_dflash", str(out / "dflash"))


def accept(out: Path) -> int:
    return run("demo.acceptance", str(out / "acceptance"), "--dflash", str(out / "dflash"))


def start(out: Path) -> int:
    wanted = servers(out)
    up = start_all(wanted, limit=400)
    (out / "up.json").write_text(json.dumps({server.name: server.process.pid for server in up if server.process}))
    return 0 if len(up) == len(wanted) else 1


def bench(out: Path) -> int:
    up = json.loads((out / "up.json").read_text())
    arms = [
        word for server in servers(out) if server.name in up for word in ("--arm", f"{server.name} url={server.url}")
    ]
    status = run("sglang_dspine.cli.main", "bench", str(out / "bench"), *arms, *LOAD.split())
    for pid in up.values():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # started in sessions of their own
    return status


def main() -> int:
    step, out = sys.argv[1], Path(sys.argv[2]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    return {"train": train, "accept": accept, "start": start, "bench": bench}[step](out)


if __name__ == "__main__":
    sys.exit(main())
