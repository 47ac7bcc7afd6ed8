"""A target in NVFP4, served and at full size, on a GPU whose FP4 path is weight-only (Hopper: Marlin).

    python -m tests.gpu.nvfp4 OUT [PAIR]     PAIR: OUT of `python -m demo.nvfp4`; without it only the head

Head: 248,320 x 5,120, random, in ModelOpt's layout through SGLang's own linear method: candidates beside those of the
dequantised rows, time and memory beside a BF16 head. Layers: the product at each shape of the pair. Served: plain
decode and DSPINE on the NVFP4 target with its FP8 KV cache, the accepted length, and E2 between both. The first
product compiles SGLang's Marlin kernel, which takes minutes. Exit status 0: everything held.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from sglang_dspine.algorithm.flags import UNFUSED
from sglang_dspine.bench.gpu_clock import timed

from .evidence import SUITE, prompts
from .first_light import measure
from .servers import SMALL, Server, start_all

VOCAB, HIDDEN, ROWS, K = 248_320, 5_120, (8, 56, 240), 16
MARLIN = ["--fp4-gemm-backend", "marlin", "--quantization", "modelopt_fp4"]
NEAR = 0.02  # of a row's largest score: two candidates closer than this may change places


def marlin_layer(out: int, width: int, part: int = 8192) -> tuple[Any, Any, torch.Tensor]:
    """A layer as SGLang leaves it after loading, its method, and the rows it stands for, [out, width] BF16."""
    from sglang.srt.layers.quantization import fp4_utils
    from sglang.srt.layers.quantization.modelopt_quant import ModelOptFp4Config, ModelOptFp4LinearMethod

    from tests.kernels.head_rows.quantise import nvfp4_parts

    fp4_utils.FP4_GEMM_RUNNER_BACKEND = fp4_utils.Fp4GemmRunnerBackend("marlin")
    method = ModelOptFp4LinearMethod(ModelOptFp4Config(True, "auto", 16, []))
    layer = torch.nn.Module()
    method.create_weights(layer, width, [out], width, out, torch.bfloat16, weight_loader=lambda *_: None)
    rows = torch.empty(out, width, dtype=torch.bfloat16)
    packed, scales, scale, values = nvfp4_parts(min(part, out), width)
    for start in range(0, out, part):  # one random part, its rows rolled along: quick to make, no two rows alike
        n, shift = min(part, out - start), start // part
        layer.weight.data[start : start + n] = packed.roll(8 * shift, 1)[:n]
        layer.weight_scale.data[start : start + n] = scales.roll(shift, 1)[:n]
        rows[start : start + n] = values.roll(16 * shift, 1)[:n].to(torch.bfloat16)
    layer.weight_scale_2.data.fill_(scale)
    layer.input_scale.data.fill_(1.0)
    layer.cuda()
    method.process_weights_after_loading(layer)
    return layer, method, rows.cuda()


@torch.inference_mode()
def layers(target: Path) -> dict[str, float]:
    """Relative error of the product for the shape of each quantised tensor of a checkpoint, random numbers."""
    with safe_open(target / "model.safetensors", "pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys() if name.endswith(".weight")}  # noqa: SIM118
        shapes = {tuple(s.get_shape()): name for name, s in slices.items() if s.get_dtype() == "U8"}
    errors = {}
    for (out, half), name in sorted(shapes.items()):
        layer, method, rows = marlin_layer(out, 2 * half)
        x = torch.randn(5, 2 * half, dtype=torch.bfloat16, device="cuda")
        exact = x.float() @ rows.float().T
        errors[f"{out} x {2 * half}"] = ((method.apply(layer, x).float() - exact).norm() / exact.norm()).item()
        print(f"layer of {out} x {2 * half} ({name}): relative error {errors[f'{out} x {2 * half}']:.2e}", flush=True)
    return errors


def agreement(scores: torch.Tensor, exact: torch.Tensor) -> tuple[int, int]:
    """Candidates of the one that are none of the other's, and how many of them are not near the last place."""
    ours, theirs = scores.topk(K).indices, exact.topk(K)
    missing = ~(ours[:, :, None] == theirs.indices[:, None]).any(2)
    gap = theirs.values[:, -1:] - exact.gather(1, ours)
    return int(missing.sum()), int((missing & (gap > NEAR * theirs.values[:, :1].abs())).sum())


@torch.inference_mode()
def head() -> dict[str, Any]:
    begin, before = time.monotonic(), torch.cuda.memory_allocated()
    layer, method, rows = marlin_layer(VOCAB, HIDDEN)
    held = sum(t.nbytes for t in [*layer.parameters(), *layer.buffers()])
    found: dict[str, Any] = {"rows": {}, "bytes": held, "bf16_bytes": rows.nbytes}
    for n in ROWS:
        x = torch.randn(n, HIDDEN, dtype=torch.bfloat16, device="cuda")
        exact = x.float() @ rows.float().T
        missing, far = agreement(method.apply(layer, x).float(), exact)
        arms = {"nvfp4": [lambda x=x: method.apply(layer, x)], "bf16": [lambda x=x: x @ rows.T]}
        us = {name: found_time.median for name, found_time in timed(arms, replays=20).items()}
        found["rows"][n] = {"missing": missing, "far": far, "nvfp4_us": us["nvfp4"], "bf16_us": us["bf16"]}
        print(
            f"head, {n} rows: {missing} of {n * K} candidates differ from the exact ones, {far} of them not near the "
            f"last place; NVFP4 {us['nvfp4']:.0f} us, BF16 {us['bf16']:.0f} us",
            flush=True,
        )
    found |= {"seconds": time.monotonic() - begin, "allocated": torch.cuda.memory_allocated() - before}
    print(
        f"head: NVFP4 {held / 1e9:.2f} GB, BF16 {rows.nbytes / 1e9:.2f} GB; {found['seconds']:.0f} s with compilation"
    )
    return found


def served(out: Path, pair: Path) -> dict[str, Any]:
    base = ["--model-path", str(pair / "nvfp4" / "target"), *SMALL, *MARLIN]
    draft = ["--speculative-algorithm", "DSPINE", "--speculative-draft-model-path", str(pair / "nvfp4" / "draft")]
    unfused = {UNFUSED: "1"}  # which DSPINE sets for itself
    servers = [Server("plain", 30180, base, out, unfused), Server("dspine", 30181, [*base, *draft], out)]
    try:
        up = start_all(servers, 480)
        results = {server.name: measure(server) for server in up}
        if len(up) < 2:
            return {"e2": None, **results}
        files = ["--prompts", str(prompts(out)), "--json", str(out / "e2.json")]
        urls = ["--url", servers[1].url, "--control-url", servers[0].url]
        e2 = subprocess.run([*SUITE, "e2", *urls, *files], capture_output=True, text=True, check=False)
        print(e2.stdout[-3000:], e2.stderr[-1000:], flush=True)
        print(f"NVFP4 target: accepted length {results['dspine']['accepted_length']:.2f}", flush=True)
        return {"e2": e2.returncode, **results}
    finally:
        for server in servers:
            server.stop()


def main(out: Path, pair: Path | None) -> int:
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"head": head()}
    torch.cuda.empty_cache()
    if pair is not None:
        found["layers"] = layers(pair / "nvfp4" / "target")
        found["served"] = served(out, pair)
    (out / "nvfp4.json").write_text(json.dumps(found) + "\n")
    right = all(row["far"] == 0 for row in found["head"]["rows"].values())
    right &= all(error < 0.02 for error in found.get("layers", {}).values())
    return 0 if right and (pair is None or found["served"]["e2"] == 0) else 1


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
