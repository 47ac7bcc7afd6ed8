"""The adaptive policy on a CUDA GPU, under a load that turns from code to noise, against plain decode and one width.

    python -m tests.gpu.width_adaptive OUT

Serves the demo pair twice: first to tune its widths, then with the tuned table and DSPINE_WIDTH_POLICY=adaptive. Each
arm is the same load in the same server: USERS requests after code, then as many after random bytes at a high
temperature; `plain` forces width 1, `fixed` the table's width, `adaptive` neither. Arms are interleaved there and back,
N (5) repetitions each. Exit status 0: adaptive has at least 0.97 of the tokens per second of the better of the other
two; the interval is printed. About six minutes.
"""

from __future__ import annotations

import concurrent.futures as futures
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import httpx

from sglang_dspine.evidence.trials import interleaved_ratio
from sglang_dspine.tuning.order import there_and_back
from sglang_dspine.tuning.server import ServerBench
from sglang_dspine.widths.parse import load_table

from .evidence import DEMO, prompts
from .first_light import REPLAY, ROOT
from .servers import SMALL, Server, start_all

USERS, REPETITIONS = int(os.environ.get("USERS", "8")), int(os.environ.get("N", "5"))
WIDTHS, PLAIN, FIXED, ADAPTIVE = "1,2,4,8,16", 0, 1, 2
NAMES = ("plain", "fixed", "adaptive")
NEW_TOKENS = 1600


def serve(out: Path, name: str, port: int, env: dict[str, str]) -> Server:
    draft = ["--speculative-algorithm", "DSPINE", "--speculative-draft-model-path", DEMO[1]]
    args = ["--model-path", DEMO[0], *draft, *SMALL, *REPLAY]
    return Server(name, port, args, out, {"DSPINE_WIDTHS": WIDTHS, **env})


def workload(url: str, code: list[list[int]], seed: int) -> float:
    """Tokens per second of both halves together."""
    draw = random.Random(seed)
    noise = [[draw.randrange(256) for _ in range(200)] for _ in range(USERS)]
    halves = [(code[:USERS], {"temperature": 0}), (noise, {"temperature": 2.5})]

    def ask(ids: list[int], sampling: dict[str, float]) -> int:
        limits = {**sampling, "max_new_tokens": NEW_TOKENS, "ignore_eos": True}
        answer = httpx.post(url + "/generate", json={"input_ids": ids, "sampling_params": limits}, timeout=300)
        answer.raise_for_status()
        return len(answer.json()["output_ids"])

    begin, tokens = time.perf_counter(), 0
    with futures.ThreadPoolExecutor(USERS) as pool:
        for texts, sampling in halves:
            tokens += sum(pool.map(lambda ids, s=sampling: ask(ids, s), texts))
    return tokens / (time.perf_counter() - begin)


def tune(out: Path) -> int:
    server = serve(out, "tuning", 30170, {"DSPINE_WIDTH_POLICY": "fixed"})
    try:
        if not start_all([server], 200):
            return 1
        command = [
            sys.executable, str(ROOT / "sps-tuning" / "tune_sps.py"), "--url", server.url, "--out", str(out / "tune"),
            "--batches", f"1,{USERS}", "--widths", WIDTHS, "--prompt-tokens", "200", "--acceptance", "published",
            "--rounds", "100", "--table", str(out / "sps.json"),
        ]  # fmt: skip
        return subprocess.run(command).returncode
    finally:
        server.stop()


def compare(out: Path) -> int:
    env = {"DSPINE_WIDTH_POLICY": "adaptive", "DSPINE_SPS_TABLE": str(out / "sps.json")}
    server = serve(out, "adaptive", 30171, env)
    forced = {PLAIN: 1, FIXED: load_table(out / "sps.json").width_of(USERS), ADAPTIVE: 0}
    code = [json.loads(line) for line in prompts(out).read_text().splitlines()]
    speeds: dict[int, list[float]] = {arm: [] for arm in forced}
    try:
        if not start_all([server], 200):
            return 1
        bench = ServerBench(server.url)
        for repetition, arm in enumerate([*forced, *there_and_back(list(forced), REPETITIONS)]):
            bench.tell(dspine_width=forced[arm])
            found = workload(server.url, code, repetition // len(forced))
            if repetition >= len(forced):  # the first round warms
                speeds[arm].append(found)
        state = bench.state()
    finally:
        server.stop()
    return judge(out, speeds, forced[FIXED], state)


def judge(out: Path, speeds: dict[int, list[float]], fixed: int, state: dict) -> int:
    medians = {arm: sorted(found)[len(found) // 2] for arm, found in speeds.items()}
    better = max((PLAIN, FIXED), key=lambda arm: medians[arm])
    ratio = interleaved_ratio(speeds[ADAPTIVE], speeds[better])
    for arm, found in speeds.items():
        width = f" (width {fixed})" if arm == FIXED else ""
        print(f"{NAMES[arm]}{width}: {medians[arm]:.0f} tok/s [{min(found):.0f}-{max(found):.0f}], N {len(found)}")
    print(f"adaptive over {NAMES[better]}: {ratio}; {json.dumps(state['decisions'])}", flush=True)
    report = {"speeds": {NAMES[arm]: found for arm, found in speeds.items()}, "fixed_width": fixed, "state": state}
    (out / "adaptive.json").write_text(json.dumps(report, indent=1))
    return 0 if ratio is not None and ratio.value >= 0.97 else 1


def main() -> int:
    out = Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    return tune(out) or compare(out)


if __name__ == "__main__":
    sys.exit(main())
