"""The exactness evidence on a CUDA GPU: E2, E3, E4 for the demo hybrid and a random dense pair, a soak beside them.

    python -m tests.gpu.evidence start OUT     # nine servers, left running
    python -m tests.gpu.evidence prove OUT 1   # E2, E3, soak; E4 begins and goes on behind
    python -m tests.gpu.evidence prove OUT 2   # soak once more, E4's end
    python -m tests.gpu.evidence prove OUT 3   # E4 with ReplaySSM, alone
    python -m tests.gpu.evidence sampled OUT   # instead of all these: E4 of the three, on servers started for it

Commands of less than ten minutes each after the start; every report is OUT/*.json, the end of stdout a table.

E4 compares frequencies with the target's exact conditionals, and 9,000 draws see a law that BF16 rounding moved: its
three servers compute in float16, which rounds eight times finer, and the head in float32. Rows whose top-p or top-k
cut hangs on a rounding of 0.04 are left out: BF16 rows differ by up to 0.3, float16's by an eighth of that.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .first_light import REPLAY, ROOT
from .servers import SMALL, Server, start_all

DEMO = [str(ROOT / "demo" / "target"), str(ROOT / "demo" / "draft")]
SUITE = [sys.executable, "-m", "sglang_dspine.exactness"]
E4 = [
    "temperature=1.0",
    "temperature=0.7 top_k=20 top_p=0.95",
    "temperature=1.5 top_p=0.9",
    "temperature=0.2 length=14",
]
SOAK_SECONDS = 290


def dense_pair() -> list[str]:
    """A random dense target and drafter with dimensions GPU kernels take."""
    from tests.support.models import dense_qwen3, dspine_drafter

    shape = {"hidden_size": 256, "head_dim": 64, "intermediate_size": 512}
    return [dense_qwen3(**shape), dspine_drafter(**shape, block_size=16)]


def servers(out: Path, build: bool = True) -> dict[str, Server]:
    dense = dense_pair() if build else ["", ""]
    draft = ["--speculative-algorithm", "DSPINE", "--speculative-draft-model-path"]
    bf16 = ["--dtype", "bfloat16"]
    fine = ["--dtype", "float16", "--enable-fp32-lm-head"]
    table = {
        "plain": ["--model-path", DEMO[0], *SMALL],
        "dspine": ["--model-path", DEMO[0], *draft, DEMO[1], *SMALL],
        "replay": ["--model-path", DEMO[0], *draft, DEMO[1], *SMALL, *REPLAY],
        "plain-replay": ["--model-path", DEMO[0], *SMALL, "--mamba-ssm-dtype", "bfloat16"],
        "dense-plain": ["--model-path", dense[0], *SMALL, *bf16],
        "dense-dspine": ["--model-path", dense[0], *draft, dense[1], *SMALL, *bf16],
        "hybrid-fine": ["--model-path", DEMO[0], *draft, DEMO[1], *SMALL, *fine],
        "replay-fine": ["--model-path", DEMO[0], *draft, DEMO[1], *SMALL, *fine, *REPLAY[:-3], "float32", *REPLAY[-2:]],
        "dense-fine": ["--model-path", dense[0], *draft, dense[1], *SMALL, *fine],
    }
    env = {"SGLANG_MAMBA_CONV_DTYPE": "float16"}  # else BF16, which SGLang cannot mix with float16
    return {
        name: Server(name, 30200 + i, args, out, env if name.endswith("fine") else {})
        for i, (name, args) in enumerate(table.items())
    }


def prompts(folder: Path, ids_below: int | None = None, count: int = 48) -> Path:
    """Held-out code as byte ids, or random ids for the random pair."""
    import random

    folder.mkdir(exist_ok=True)
    source = b"".join(p.read_bytes() for p in sorted((ROOT / "sglang_dspine").rglob("*.py")))
    draw, lines = random.Random(0), []
    for i in range(count):
        length = 40 + 13 * i % 300
        start = draw.randrange(len(source) - length)
        ids = (
            list(source[start : start + length])
            if ids_below is None
            else [draw.randrange(ids_below) for _ in range(length)]
        )
        lines.append(json.dumps(ids))
    path = folder / ("code.jsonl" if ids_below is None else "random.jsonl")
    path.write_text("\n".join(lines) + "\n")
    return path


def jobs(out: Path, part: int) -> dict[str, list[str]]:
    urls = {name: server.url for name, server in servers(out, build=False).items()}
    code, noise = prompts(out), prompts(out, 256)
    soak = [sys.executable, "-m", "tests.gpu.soak"]
    table = {f"soak-{part}": [*soak, urls["dspine"], str(SOAK_SECONDS), str(out / f"soak-{part}.json"), urls["plain"]]}
    if part == 2:
        return table
    pairs = {"dspine": ("plain", code), "replay": ("plain-replay", code), "dense-dspine": ("dense-plain", noise)}
    for name, (control, file) in pairs.items():
        arms = ["--url", urls[name], "--control-url", urls[control], "--prompts", str(file)]
        table[f"e2-{name}"] = [*SUITE, "e2", *arms, "--json", str(out / f"e2-{name}.json")]
        audit = ["-c", "from sglang_dspine.cli.main import app; app()", "audit", "--control-passes", "6"]
        report = ["--max-new-tokens", "64", "--json", str(out / f"e3-{name}.json")]
        table[f"e3-{name}"] = [sys.executable, *audit, *arms, *report]
    return table


def distributions(out: Path, names: Iterable[str] = ("hybrid", "dense")) -> dict[str, list[str]]:
    """E4 reports; a pilot chooses the prompts whose next tokens can show a wrong q."""
    urls = {name: server.url for name, server in servers(out, build=False).items()}
    settings = [word for setting in E4 for word in ("--setting", setting)]
    sizes = ["--top", "272", "--vocab-size", "272", "--pilot", "2048", "--keep", "2"]
    sizes += ["--power-runs", "20", "--processes", "4", "--rounding", "0.04"]
    return {
        f"e4-{name}": [
            *SUITE, "e4", "--url", urls[f"{name}-fine"], "--prompts", str(file), *settings, *sizes,
            "--json", str(out / f"e4-{name}.json"),
        ]
        for name in names
        for file in [prompts(out / "e4", 256 if name == "dense" else None, count=256)]
    }  # fmt: skip


def detach(out: Path, commands: dict[str, list[str]]) -> None:
    """Start commands that outlive this one; each leaves its exit status in OUT/name.rc."""
    for name, command in commands.items():
        line = f"{shlex.join(command)} > {out}/{name}.txt 2>&1; echo $? > {out}/{name}.rc"
        nowhere = subprocess.DEVNULL  # who holds our own output would keep whatever reads it waiting
        subprocess.Popen(["bash", "-c", line], cwd=ROOT, start_new_session=True, stdout=nowhere, stderr=nowhere)


def joined(out: Path, names: Iterable[str], until: float) -> bool:
    """Wait for detached commands, and print the end of what they said."""
    passed = True
    for name in names:
        file = out / f"{name}.rc"
        while not file.exists() and time.time() < until:
            time.sleep(1)
        status = file.read_text().strip() if file.exists() else "time"
        tell(out, name, status)
        passed &= status == "0"
    return passed


def tell(out: Path, name: str, status: Any) -> None:
    print(f"== {name}: exit {status}")
    print("\n".join((out / f"{name}.txt").read_text(errors="replace").splitlines()[-16:])[-1700:], flush=True)


def prove(out: Path, commands: dict[str, list[str]], limit: float = 560) -> int:
    """Run the commands side by side; print the end of each one's output."""
    begin, running = time.time(), {}
    for name, command in commands.items():
        log = (out / f"{name}.txt").open("w")
        running[name] = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    status = {}
    for name, process in running.items():
        try:
            status[name] = process.wait(max(1, begin + limit - time.time()))
        except subprocess.TimeoutExpired:
            process.kill()
            status[name] = "time"
        tell(out, name, f"{status[name]} after {time.time() - begin:.0f} s")
    return 0 if all(code == 0 for code in status.values()) else 1


def main() -> int:
    action, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    if action in ("start", "sampled"):
        table = [server for name, server in servers(out).items() if action == "start" or name.endswith("fine")]
        if len(start_all(table, 300)) != len(table):
            return 1
        return prove(out, distributions(out, ("hybrid", "replay", "dense"))) if action == "sampled" else 0
    part, begin = int(sys.argv[3]), time.time()
    if part == 3:
        return prove(out, distributions(out, ("replay",)))
    if part == 1:
        detach(out, distributions(out))
    status = prove(out, jobs(out, part))
    if part == 2 and not joined(out, ("e4-hybrid", "e4-dense"), begin + 570):
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
