"""262,144 positions on a CUDA GPU: needles at 4K, 64K and 200K, with and without ReplaySSM.

    python -m tests.gpu.long_context OUT

Target and drafter are planted, not trained (`tests/support/needle.py`): the target finds a needle by content at any
distance and answers with one token; the drafter, window 512, taps that answer. Each server starts with a context of
262,144 and answers prompts of 8K, 68K and 204K tokens with the needle after 4K, 64K and 200K, each cold and sent again.
Printed and written to OUT/long_context.json: whether each answer is the needle's, accepted length, cached tokens and
seconds by context bucket. Exit status 0 if every answer is right, the second time comes from the cache, and accepted
length of the longest bucket is not below 0.9 of the shortest's.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.support.needle import ANSWERS, needle_pair, prompt

from .first_light import REPLAY
from .servers import Server, start_all

CONTEXT, WINDOW, ANSWER_TOKENS = 262_144, 512, 64
CASES = ((8_200, 4_096), (68_000, 64_000), (204_000, 200_000))  # prompt tokens, depth of the needle
# Not 8,192: SGLang keeps recurrent states at multiples of 256, and never takes a prompt's last token from its cache.
FLAGS = [
    "--mem-fraction-static", "0.3", "--max-total-tokens", "600000", "--max-running-requests", "4",
    "--context-length", str(CONTEXT), "--chunked-prefill-size", "8192", "--dtype", "bfloat16",
    "--cuda-graph-backend-prefill=disabled", "--cuda-graph-max-bs-decode", "4", "--skip-server-warmup",
]  # fmt: skip


def servers(out: Path) -> list[Server]:
    pair = needle_pair(CONTEXT, WINDOW)
    base = ["--model-path", pair.target, *FLAGS]
    draft = ["--speculative-algorithm", "DSPINE", "--speculative-draft-model-path", pair.draft]
    buffers = ["--mamba-radix-cache-strategy", "extra_buffer"]
    arms = {"dspine": [*base, *draft, *buffers], "dspine-replay": [*base, *draft, *REPLAY]}
    return [Server(name, 30700 + i, args, out) for i, (name, args) in enumerate(arms.items())]


def ask(server: Server, length: int, depth: int, number: int) -> dict[str, Any]:
    sampling = {"temperature": 0, "max_new_tokens": ANSWER_TOKENS, "ignore_eos": True}
    begin = time.time()
    answer = server.post(
        "/generate", {"input_ids": prompt(length, depth, number), "sampling_params": sampling}, timeout=300
    )
    meta, ids = answer["meta_info"], answer["output_ids"]
    return {
        "context": length, "depth": depth, "right": ids == [ANSWERS[number]] * ANSWER_TOKENS,
        "accepted_length": meta.get("spec_accept_length"), "cached_tokens": meta["cached_tokens"],
        "seconds": round(time.time() - begin, 3),
    }  # fmt: skip


def measure(server: Server) -> list[dict[str, Any]]:
    rows = []
    for number, (length, depth) in enumerate(CASES):
        for how in ("cold", "again"):
            row = {"arm": server.name, "how": how, **ask(server, length, depth, number)}
            print(json.dumps(row), flush=True)
            rows.append(row)
    return rows


def faults(rows: list[dict[str, Any]]) -> list[str]:
    found = [f"{r['arm']} {r['how']} at {r['context']}: wrong answer" for r in rows if not r["right"]]
    found += [
        f"{r['arm']} at {r['context']}: not cached" for r in rows if r["how"] == "again" and not r["cached_tokens"]
    ]
    for arm in {r["arm"] for r in rows}:
        lengths = [r["accepted_length"] or 0 for r in rows if r["arm"] == arm and r["how"] == "cold"]
        if lengths[-1] < 0.9 * lengths[0]:
            found.append(f"{arm}: accepted length falls from {lengths[0]} to {lengths[-1]}")
    return found


def main() -> int:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    wanted = servers(out)
    running = start_all(wanted, 300)
    rows: list[dict[str, Any]] = []
    try:
        for server in running:
            rows += measure(server)
    finally:
        for server in wanted:
            server.stop()
        (out / "long_context.json").write_text(json.dumps(rows, indent=1))
    wrong = faults(rows) + [f"{s.name}: did not start" for s in wanted if s not in running]
    print("\n".join(wrong) or "every needle found", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
