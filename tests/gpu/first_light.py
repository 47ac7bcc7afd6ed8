"""The demo pair on a CUDA GPU: DSPINE against plain decode, graphs and overlap on.

    python -m tests.gpu.first_light OUT [TARGET DRAFT]

Starts the arms side by side, sends the same greedy prompts to each alone and as a batch, counts tokens that differ from
plain decode, then sampled requests, and prints one line an arm. Results: OUT/first_light.json, logs beside it.
"""

from __future__ import annotations

import concurrent.futures as futures
import json
import sys
import time
from pathlib import Path
from typing import Any

from .servers import SMALL, Server, start_all

ROOT = Path(__file__).resolve().parents[2]
REPLAY = [
    "--enable-linear-replayssm-spec", "--mamba-ssm-dtype", "bfloat16",
    "--mamba-radix-cache-strategy", "extra_buffer_lazy",
]  # fmt: skip
NEW_TOKENS = 128


def arms(out: Path, target: str, draft: str) -> list[Server]:
    base = ["--model-path", target, *SMALL]
    spec = ["--speculative-algorithm", "DSPINE", "--speculative-draft-model-path", draft]
    table = {
        "plain": base,
        "dspine": [*base, *spec],
        "dspine-triton": [
            *base,
            *spec,
            "--attention-backend",
            "triton",
            "--speculative-draft-attention-backend",
            "triton",
        ],
        "dspine-replay": [*base, *spec, *REPLAY],
        "dspine-fp8": [*base, *spec, "--speculative-draft-model-quantization", "fp8"],
        "dspine-eager": [*base, *spec, "--cuda-graph-backend-decode=disabled", "--disable-overlap-schedule"],
    }
    return [Server(name, 30100 + i, args, out) for i, (name, args) in enumerate(table.items())]


def prompts() -> list[str]:
    source = (ROOT / "tests" / "gpu" / "servers.py").read_text()
    return [source[i : i + 160 + 7 * i % 90] for i in range(0, 2400, 200)]


def generate(server: Server, text: str, **sampling: Any) -> dict[str, Any]:
    parameters = {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True, **sampling}
    return server.post("/generate", {"text": text, "sampling_params": parameters})


def batch(server: Server, texts: list[str], **sampling: Any) -> list[dict[str, Any]]:
    with futures.ThreadPoolExecutor(len(texts)) as pool:
        return list(pool.map(lambda text: generate(server, text, **sampling), texts))


def measure(server: Server) -> dict[str, Any]:
    texts, result = prompts(), {"up_s": server.seconds_up}
    alone = [generate(server, text) for text in texts]
    begin = time.time()
    together = batch(server, texts)
    seconds = time.time() - begin
    result["alone"] = [r["output_ids"] for r in alone]
    result["together"] = [r["output_ids"] for r in together]
    result["batch_tok_s"] = sum(len(r["output_ids"]) for r in together) / seconds
    result["cached"] = sum(r["meta_info"]["cached_tokens"] for r in together)
    rounds = sum(r["meta_info"].get("spec_verify_ct", 0) for r in alone)
    result["accepted_length"] = sum(len(r["output_ids"]) - 1 for r in alone) / rounds if rounds else None
    sampled = batch(server, texts * 2, temperature=0.9, top_p=0.95, top_k=40)
    result["sampled_tokens"] = sum(len(r["output_ids"]) for r in sampled)
    return result


def differing(a: list[list[int]], b: list[list[int]]) -> tuple[int, int]:
    """Requests whose text differs, and tokens up to and including each first difference counted as equal before it."""
    equal = sum(
        next((i for i, (x, y) in enumerate(zip(p, q, strict=True)) if x != y), len(p))
        for p, q in zip(a, b, strict=True)
    )
    return sum(p != q for p, q in zip(a, b, strict=True)), equal


def main() -> int:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    target, draft = (
        sys.argv[2:4] if len(sys.argv) > 3 else (str(ROOT / "demo" / "target"), str(ROOT / "demo" / "draft"))
    )
    servers = arms(out, target, draft)
    results: dict[str, Any] = {}
    try:
        for server in start_all(servers, 300):
            try:
                results[server.name] = measure(server)
            except Exception as error:
                tail = "\n".join(line[:300] for line in server.log().splitlines()[-45:])
                print(f"[{server.name}] FAILED {error!r}\n{tail}", flush=True)
    finally:
        for server in servers:
            server.stop()
    (out / "first_light.json").write_text(json.dumps(results))
    plain = results.get("plain")
    for name, r in results.items():
        line = f"{name:15s} up {r['up_s']:.0f} s  {r['batch_tok_s']:.0f} tok/s in a batch of {len(r['together'])}"
        line += f"  accepted length {r['accepted_length']:.2f}" if r["accepted_length"] else ""
        if plain:
            one, together = differing(plain["alone"], r["alone"]), differing(plain["alone"], r["together"])
            line += (
                f"  against plain alone: {one[0]} of {len(r['alone'])} texts differ alone, {together[0]} in the batch"
            )
        print(f"{line}  cached {r['cached']}  sampled tokens {r['sampled_tokens']}", flush=True)
    return 0 if len(results) == len(servers) else 1


if __name__ == "__main__":
    sys.exit(main())
