"""The exactness evidence on a CUDA GPU: E2, E3, E4 for the demo hybrid and a random dense pair, a soak beside them.

    python -m tests.gpu.evidence start OUT     # six servers, left running
    python -m tests.gpu.evidence prove OUT 1   # E2, E3, two E4 settings, soak
    python -m tests.gpu.evidence prove OUT 2   # the other E4 settings, soak once more

    python -m tests.gpu.evidence brief OUT 120 # the demo pair alone, no soak: start and prove in one go

Two commands of less than ten minutes each after the start; every report is OUT/*.json, the end of stdout a table.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from .first_light import REPLAY, ROOT
from .servers import SMALL, Server, start_all

DEMO = [str(ROOT / "demo" / "target"), str(ROOT / "demo" / "draft")]
SUITE = [sys.executable, "-m", "sglang_dspine.exactness"]
E4 = {
    1: ["temperature=1.0", "temperature=0.7 top_k=20 top_p=0.95"],
    2: ["temperature=1.5 top_p=0.9", "temperature=0.2"],
}
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
    table = {
        "plain": ["--model-path", DEMO[0], *SMALL],
        "dspine": ["--model-path", DEMO[0], *draft, DEMO[1], *SMALL],
        "replay": ["--model-path", DEMO[0], *draft, DEMO[1], *SMALL, *REPLAY],
        "plain-replay": ["--model-path", DEMO[0], *SMALL, "--mamba-ssm-dtype", "bfloat16"],
        "dense-plain": ["--model-path", dense[0], *SMALL, *bf16],
        "dense-dspine": ["--model-path", dense[0], *draft, dense[1], *SMALL, *bf16],
    }
    return {name: Server(name, 30200 + i, args, out) for i, (name, args) in enumerate(table.items())}


def prompts(folder: Path, ids_below: int | None = None, count: int = 48) -> Path:
    """Held-out code as byte ids, or random ids for the random pair."""
    import random

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
    code, noise, few = prompts(out), prompts(out, 256), prompts(out.parent, count=6)
    soak = [sys.executable, "-m", "tests.gpu.soak"]
    table = {f"soak-{part}": [*soak, urls["dspine"], str(SOAK_SECONDS), str(out / f"soak-{part}.json"), urls["plain"]]}
    if part == 1:
        pairs = {"dspine": ("plain", code), "replay": ("plain-replay", code), "dense-dspine": ("dense-plain", noise)}
        for name, (control, file) in pairs.items():
            arms = ["--url", urls[name], "--control-url", urls[control]]
            report = ["--prompts", str(file), "--json", str(out / f"e2-{name}.json")]
            table[f"e2-{name}"] = [*SUITE, "e2", *arms, *report]
        audit = ["-c", "from sglang_dspine.cli.main import app; app()", "audit"]
        arms = ["--url", urls["replay"], "--control-url", urls["plain-replay"]]
        report = ["--max-new-tokens", "64", "--json", str(out / "e3-replay.json")]
        table["e3-replay"] = [sys.executable, *audit, *arms, "--prompts", str(code), *report]
    settings = [word for setting in E4[part] for word in ("--setting", setting)]
    table[f"e4-{part}"] = [
        *SUITE, "e4", "--url", urls["replay"], "--prompts", str(few), *settings, "--top", "272", "--vocab-size", "272",
        "--json", str(out / f"e4-{part}.json"),
    ]  # fmt: skip
    return table


def brief(out: Path, limit: float) -> int:
    """E2, E3 and two settings of E4 on the demo pair, within `limit` seconds after the servers are up."""
    table = {name: server for name, server in servers(out, build=False).items() if not name.startswith("dense")}
    try:
        if len(start_all(list(table.values()), 150)) < len(table):
            return 1
        wanted = ("e2-dspine", "e2-replay", "e3-replay", "e4-1")
        return prove(out, {name: command for name, command in jobs(out, 1).items() if name in wanted}, limit)
    finally:
        for server in table.values():
            server.stop()


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
        print(f"== {name}: exit {status[name]} after {time.time() - begin:.0f} s")
        print("\n".join((out / f"{name}.txt").read_text(errors="replace").splitlines()[-16:])[-1700:], flush=True)
    return 0 if all(code == 0 for code in status.values()) else 1


def main() -> int:
    action, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    if action == "start":
        table = servers(out)
        return 0 if len(start_all(list(table.values()), 240)) == len(table) else 1
    if action == "brief":
        return brief(out, float(sys.argv[3]))
    return prove(out, jobs(out, int(sys.argv[3])))


if __name__ == "__main__":
    sys.exit(main())
