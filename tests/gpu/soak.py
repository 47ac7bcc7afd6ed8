"""32 running requests for minutes: mixed lengths, aborts, grammar and sampled requests among greedy ones.

    python -m tests.gpu.soak URL SECONDS OUT [CONTROL_URL]

Greedy answers are kept with the rows that decided them, and re-scored at the end (E2) against plain decode at
CONTROL_URL.
Exit status 0: no error, the server healthy and its caches empty after a flush, E2 holds.
"""

from __future__ import annotations

import collections
import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from sglang_dspine.exactness.endpoint import Endpoint, Generation
from sglang_dspine.exactness.served_rows import accepted_before, compare_row, served_rows
from sglang_dspine.exactness.teacher_forced import Rows, compare

USERS, TOP, KEPT = int(os.environ.get("USERS", 32)), 20, 400
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "size": {"type": "integer"}},
    "required": ["name", "size"],
    "additionalProperties": False,
}
SAMPLED: list[dict[str, Any]] = [
    {"temperature": 1.0, "top_p": 0.95, "top_k": 20},
    {"temperature": 0.7},
    {"temperature": 1.3, "min_p": 0.05},
    {"temperature": 0.8, "frequency_penalty": 0.4},
]
SOURCE = b"".join(path.read_bytes() for path in sorted(Path(__file__).resolve().parents[1].rglob("*.py"))[:40])
COMPACT = {"32": -100.0, "10": -100.0, "9": -100.0}  # no endless white space inside JSON


class Soak:
    """Users in threads; each sends one request after another until the time is up."""

    def __init__(self, url: str, seconds: float) -> None:
        self.endpoint, self.end = Endpoint(url, concurrency=USERS + 4), time.time() + seconds
        self.counts: collections.Counter[str] = collections.Counter()
        self.errors: list[str] = []
        self.kept: list[tuple[list[int], Generation]] = []
        self.lock = threading.Lock()

    def run(self) -> None:
        users = [threading.Thread(target=self._user, args=(seed,)) for seed in range(USERS)]
        for user in users:
            user.start()
        for user in users:
            user.join()

    def _user(self, seed: int) -> None:
        draw = random.Random(seed)
        while time.time() < self.end:
            kind = draw.choices(["greedy", "sampled", "schema", "abort"], [40, 35, 10, 15])[0]
            start = draw.choice([0, 4000, 9000]) + draw.randrange(4)  # shared prefixes, not all of them
            ids = list(SOURCE[start : start + draw.choice([20, 90, 300, 900])])
            try:
                tokens = getattr(self, f"_{kind}")(ids, draw)
                with self.lock:
                    self.counts[kind] += 1
                    self.counts["tokens"] += tokens
            except Exception as error:
                with self.lock:
                    self.errors.append(f"{kind}: {error!r}"[:400])

    def _greedy(self, ids: list[int], draw: random.Random) -> int:
        limits = {"temperature": 0, "max_new_tokens": draw.choice([8, 40, 120, 300]), "ignore_eos": True}
        if draw.random() < 0.5 and len(self.kept) < KEPT:
            found = self.endpoint.generate(ids, limits, top=TOP, stream=True)
            with self.lock:
                self.kept.append((ids, found))
        else:
            found = self.endpoint.generate(ids, limits)
        return len(found.ids)

    def _sampled(self, ids: list[int], draw: random.Random) -> int:
        limits = {
            **draw.choice(SAMPLED),
            "max_new_tokens": draw.choice([8, 60, 200]),
            "ignore_eos": draw.random() < 0.5,
        }
        return len(self.endpoint.generate(ids, limits).ids)

    def _schema(self, ids: list[int], draw: random.Random) -> int:
        limits = {"temperature": draw.choice([0, 0.9]), "max_new_tokens": 96, "json_schema": json.dumps(SCHEMA),
                  "logit_bias": COMPACT}  # fmt: skip
        found = self.endpoint.generate(ids[:200], limits)
        if found.meta["finish_reason"]["type"] == "stop":
            json.loads(bytes(i for i in found.ids if i < 256).decode())
        return len(found.ids)

    def _abort(self, ids: list[int], draw: random.Random) -> int:
        limits = {"temperature": 0, "max_new_tokens": 600, "ignore_eos": True}
        body = {"input_ids": ids, "stream": True, "sampling_params": limits}
        with httpx.stream("POST", self.endpoint.url + "/generate", json=body, timeout=120) as answer:
            for n, _ in enumerate(answer.iter_lines()):
                if n > draw.randrange(1, 30):
                    break  # leaving the block closes the connection in mid-run
        return 0


def judge(soak: Soak, control_url: str | None) -> dict[str, Any]:
    """Re-score the kept greedy answers."""
    found = []
    for ids, generation in soak.kept[:120]:
        score = soak.endpoint.score([*ids, *generation.ids], len(ids), top=TOP)
        before = accepted_before(generation.blocks)
        rows = zip(generation.top, score.top, before, strict=True)
        found += [(k, *compare_row(u, r), a) for k, (u, r, a) in enumerate(rows, start=1)]
    if not found:
        return {"passed": False, "lines": ["no greedy answer was kept"], "rows": 0}
    position, delta, margin, flipped, accepted = (np.array(column) for column in zip(*found, strict=True))
    test = Rows(position, delta, margin, flipped, accepted)
    control = None
    if control_url:
        control = served_rows(Endpoint(control_url, concurrency=4), [ids for ids, _ in soak.kept[:40]], top=TOP)
    report = compare(test, control, soak.endpoint.url)
    return {"passed": report.passed, "lines": list(report.lines), "rows": len(test)}


def main() -> int:
    url, seconds, out = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
    soak = Soak(url, seconds)
    soak.run()
    time.sleep(3)
    soak.endpoint.flush_cache()  # refused while anything still runs
    after = httpx.get(url + "/server_info", timeout=30).json()
    state = (after.get("internal_states") or [{}])[0]
    result = {
        "seconds": seconds,
        "counts": dict(soak.counts),
        "errors": soak.errors[:10],
        "error_count": len(soak.errors),
    }
    result["accept_length"] = state.get("avg_spec_accept_length")
    result["healthy"] = httpx.get(url + "/health", timeout=30).status_code == 200
    result["e2"] = judge(soak, sys.argv[4] if len(sys.argv) > 4 else None)
    out.write_text(json.dumps(result, indent=1))
    print("soak", json.dumps(result), flush=True)
    return 0 if not soak.errors and result["healthy"] and result["e2"]["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
