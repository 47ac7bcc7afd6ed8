"""Widths that change from round to round on a CUDA GPU, graphs and overlap on: E2 against plain decode.

    python -m tests.gpu.width_sweep OUT

Two servers on the demo pair: plain decode, and DSPINE (ReplaySSM) whose table gives every batch size another width,
plain decode among them, with a graph for each; a round that finds none is an error. First a load that sweeps batch
1 -> 16 -> 3, then the E2 suite with 16 in flight. Exit status 0: E2 holds, every width was used, nothing ran eagerly.
About three minutes.
"""

from __future__ import annotations

import concurrent.futures as futures
import json
import subprocess
import sys
import time
from pathlib import Path

import httpx

from .evidence import DEMO, SUITE, prompts
from .first_light import REPLAY, ROOT
from .servers import SMALL, Server, start_all

WIDTHS = [16, 12, 1, 8, 8, 2, 16, 4, 4, 1, 6, 6, 1, 10, 2, 8]


def servers(out: Path) -> list[Server]:
    table = {"version": 1, "widths": WIDTHS, "provenance": {"gpu": "any", "source": "tests/gpu/width_sweep.py"}}
    (out / "sps.json").write_text(json.dumps(table))
    draft = ["--speculative-algorithm", "DSPINE", "--speculative-draft-model-path", DEMO[1]]
    env = {"DSPINE_SPS_TABLE": str(out / "sps.json"), "DSPINE_EAGER_IS_ERROR": "1"}
    plain = ["--model-path", DEMO[0], *SMALL, "--mamba-ssm-dtype", "bfloat16"]
    swept = ["--model-path", DEMO[0], *draft, *SMALL, *REPLAY]
    return [Server("plain", 30160, plain, out), Server("swept", 30161, swept, out, env)]


def sweep(url: str, ids: list[list[int]]) -> int:
    """One request, then fifteen more one after another; three outlast the others. Returns the tokens that came."""

    def ask(index: int) -> int:
        time.sleep(0.03 * index)
        sampling = {"temperature": 0, "max_new_tokens": 3000 if index < 3 else 1600 - 40 * index, "ignore_eos": True}
        body = {"input_ids": ids[index], "sampling_params": sampling}
        answer = httpx.post(url + "/generate", json=body, timeout=300)
        answer.raise_for_status()
        return len(answer.json()["output_ids"])

    with futures.ThreadPoolExecutor(16) as pool:
        return sum(pool.map(ask, range(16)))


def main() -> int:
    out = Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    arms = servers(out)
    try:
        if len(start_all(arms, 240)) < len(arms):
            return 1
        plain, swept = arms
        file = prompts(out)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        print("sweep:", sweep(swept.url, lines), "tokens", flush=True)
        command = [
            *SUITE, "e2", "--url", swept.url, "--control-url", plain.url, "--prompts", str(file),
            "--concurrency", "16", "--json", str(out / "e2-widths.json"),
        ]  # fmt: skip
        status = subprocess.run(command, cwd=ROOT, timeout=330).returncode
        state = httpx.get(swept.url + "/server_info", timeout=60).json()["internal_states"][0]["dspine"]
        (out / "widths.json").write_text(json.dumps(state, indent=1))
        used = {cell["batch"] for cell in state["rounds"]}
        print(f"E2 exit {status}; batches {sorted(used)}; rounds by width {state['rounds_by_width']}; eager", end=" ")
        print(state["eager_forwards"], "accepted length by width", state["accept_length_by_width"], flush=True)
        missing = sorted({*WIDTHS} - {int(width) for width in state["rounds_by_width"]})
        if missing:
            print(f"widths never used: {missing}")
        return 1 if status or missing or state["eager_forwards"] else 0
    finally:
        for server in arms:
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
