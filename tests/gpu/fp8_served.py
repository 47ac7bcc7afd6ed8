"""An FP8 checkpoint and its BF16 original quantised while it is loaded: the same bits through real SGLang on a GPU.

    python -m tests.gpu.fp8_served OUT [DRAFT]

Converts the demo drafter, then serves it, each arm in a process of its own, eagerly, requests one after another:
`online` (BF16 checkpoint, `--speculative-draft-model-quantization fp8`), `stored` (the FP8 checkpoint, same flag), and
`bf16` (unquantised, to see what FP8 costs). Compared between the first two: every tensor of the draft model, and of
every round the proposals, candidates, table and q. A fourth arm, `graphs`, serves the FP8 checkpoint from CUDA graphs.
Each arm runs the start-up self-check. Exit status 0: everything equal, every self-check passed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
NEW_TOKENS, PROMPTS, LENGTH = 96, 12, 200


def serve(arm: str, draft: str, out: Path) -> None:
    """Serve one arm in this process; write what it held and what it proposed."""
    from tests.support.engine import InProcessEngine, Request
    from tests.support.round_log import logged_rounds

    settings: dict[str, Any] = {
        "speculative_algorithm": "DSPINE", "speculative_draft_model_path": draft, "max_running_requests": 4,
        "max_total_tokens": 8192, "mem_fraction_static": 0.2, "log_level": "info",
        "disable_cuda_graph": arm != "graphs",
    }  # fmt: skip
    if torch.cuda.is_available():
        settings |= {"device": "cuda", "dtype": "bfloat16", "attention_backend": "triton", "mamba_ssm_dtype": None}
    if arm != "bf16":
        settings["speculative_draft_model_quantization"] = "fp8"
    code = b"".join(path.read_bytes() for path in sorted((ROOT / "sglang_dspine").rglob("*.py")))
    prompts = [list(code[start : start + LENGTH]) for start in range(0, PROMPTS * 5000, 5000)]
    with InProcessEngine(str(ROOT / "demo" / "target"), **settings) as engine:
        with logged_rounds() as log:
            request = {"max_new_tokens": NEW_TOKENS, "ignore_eos": True}
            outputs = [engine.generate([Request(ids, request)])[0] for ids in prompts]
        worker = engine.draft_worker
        held = {name: tensor.detach().cpu() for name, tensor in worker.draft_model.state_dict().items()}
        rounds = [drafted for out in outputs for drafted in log.rounds[out.rid]]
        parts = ("proposals", "candidates", "scores", "q")
        drawn = [{p: v.cpu() for p in parts if (v := getattr(r, p)) is not None} for r in rounds]
        torch.save(
            {
                "held": held,
                "rounds": drawn,
                "accepted": [r.accepted for r in rounds],
                "texts": [o.output_ids for o in outputs],
                "self_check": str(worker.self_check),
            },
            out / f"{arm}.pt",
        )


def bits_differ(a: torch.Tensor, b: torch.Tensor) -> bool:
    same = a.dtype == b.dtype and a.shape == b.shape
    return not same or not torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def compare(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    tensors = [name for name in a["held"] if bits_differ(a["held"][name], b["held"][name])]
    pairs = list(zip(a["rounds"], b["rounds"], strict=False))
    wrong = {part: sum(bits_differ(x[part], y[part]) for x, y in pairs) for part in a["rounds"][0]}
    return {
        "tensors": len(a["held"]), "tensors that differ": tensors, "rounds": [len(a["rounds"]), len(b["rounds"])],
        "rounds that differ": wrong, "accepted lengths differ": a["accepted"] != b["accepted"],
        "texts that differ": sum(x != y for x, y in zip(a["texts"], b["texts"], strict=True)),
    }  # fmt: skip


def main() -> int:
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:4], Path(sys.argv[4]))
        os._exit(0)  # an engine of this process leaves threads behind
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    draft = sys.argv[2] if len(sys.argv) > 2 else str(ROOT / "demo" / "draft")
    from sglang_dspine.checkpoint.fp8 import rounding_of

    capability = torch.cuda.get_device_capability() if torch.cuda.is_available() else (12, 1)
    stored, rounding = str(out / "fp8"), str(rounding_of(capability))
    main_of = ["-c", "from sglang_dspine.cli.main import app; app()"]
    command = [sys.executable, *main_of, "convert", draft, stored, "--format", "fp8", "--rounding", rounding]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    arms = {"online": draft, "stored": stored, "bf16": draft}
    if torch.cuda.is_available():
        arms["graphs"] = stored
    environment = {**os.environ, "DSPINE_SELF_CHECK": "1"}
    running = {}
    for arm, folder in arms.items():  # side by side: each is one small process
        log = (out / f"{arm}.log").open("w")
        command = [sys.executable, "-m", "tests.gpu.fp8_served", "serve", arm, folder, str(out)]
        running[arm] = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)
    failed = [arm for arm, process in running.items() if process.wait(400) != 0]
    for arm in failed:
        print(f"[{arm}] failed\n" + "\n".join((out / f"{arm}.log").read_text(errors="replace").splitlines()[-25:]))
    if failed:
        return 1
    found = {arm: torch.load(out / f"{arm}.pt") for arm in arms}
    for arm, result in found.items():
        lengths = result["accepted"]
        mean = sum(lengths) / len(lengths)
        print(f"{arm}: accepted length {mean:.3f} over {len(lengths)} rounds; self-check {result['self_check']}")
    verdict = compare(found["online"], found["stored"])
    print(json.dumps(verdict, indent=1))
    (out / "fp8_served.json").write_text(json.dumps(verdict, indent=1))
    for arm in arms:
        (out / f"{arm}.pt").unlink()
    nothing = not verdict["tensors that differ"] and not any(verdict["rounds that differ"].values())
    return 0 if nothing and not verdict["accepted lengths differ"] and verdict["rounds"][0] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
