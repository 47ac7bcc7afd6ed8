"""Context K/V of an FP8 drafter: ours against SGLang's layer-by-layer path, at the 27B drafter's shape, on a CUDA GPU.

    python -m tests.gpu.context_kv OUT

One engine in this process, dummy weights. For 1, 8, 64 and 2,048 rows: time of a commit eagerly and replayed as a
graph, for three arms taken in turn (A B C C B A), beside the floor of the bytes it must move at the measured copy rate.
Arms: `ours` (FP8 fc, one FP8 product for K and V of all layers), `layers` (FP8 fc, SGLang's path), `sglang` (its own:
BF16 fc as well). Checks first that ours writes what the layers' own products write.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sglang_dspine.config import DraftConfig, render_config
from tests.support.process import start_scheduler

SHAPE = DraftConfig(
    hidden_size=5120, num_layers=5, num_heads=32, num_kv_heads=8, head_dim=128, intermediate_size=17408,
    vocab_size=2048, block_size=16, mask_token_id=2047, target_layer_ids=(1, 2, 3, 4, 5),
    num_target_layers=8, transfer_rank=1024, message_size=512, top_k=16, rms_norm_eps=1e-6, rope_theta=1e7,
    rope_scaling=None, max_position_embeddings=262144,
    layer_types=("sliding_attention",) * 5, sliding_window=8192,
)  # fmt: skip
TINY = replace(
    SHAPE, hidden_size=128, num_heads=4, num_kv_heads=2, head_dim=32, intermediate_size=256, transfer_rank=32
)
ROWS = (1, 8, 64, 2048)


def write_configs(folder: Path, shape: DraftConfig) -> tuple[str, str]:
    """Folders with a config.json only; the target is as thin as its width allows."""
    target = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": shape.vocab_size,
        "hidden_size": shape.hidden_size, "intermediate_size": 256, "num_hidden_layers": shape.num_target_layers,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64, "hidden_act": "silu", "rms_norm_eps": 1e-6,
        "max_position_embeddings": 8192, "rope_theta": 1e6, "tie_word_embeddings": False, "attention_bias": False,
        "dtype": "bfloat16", "eos_token_id": 1, "pad_token_id": 0, "bos_token_id": None,
    }  # fmt: skip
    for name, config in (("target", target), ("draft", render_config(shape) | {"dtype": "bfloat16"})):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps(config))
    return str(folder / "target"), str(folder / "draft")


def start(folder: Path, shape: DraftConfig, **more: Any) -> Any:
    target, draft = write_configs(folder, shape)
    return start_scheduler({
        "model_path": target, "speculative_algorithm": "DSPINE", "speculative_draft_model_path": draft,
        "speculative_draft_model_quantization": "fp8", "load_format": "dummy", "speculative_draft_load_format": "dummy",
        "skip_tokenizer_init": True, "max_total_tokens": 8192, "max_running_requests": 160, "dtype": "bfloat16",
        "disable_cuda_graph": True, "log_level": "warning", **more,
    }).draft_worker  # fmt: skip


class Plain:
    """An unquantised `fc`, as SGLang's DFlash has it."""

    def __init__(self, fc: Any) -> None:
        self.input_size = fc.input_size
        scale = fc.weight_scale.reshape(1, -1)
        self.weight = (fc.weight.float() * scale).to(torch.bfloat16).t().contiguous()

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, None]:
        return torch.nn.functional.linear(x, self.weight), None


@contextmanager
def arm(worker: Any, name: str, plain: Plain):
    """ours, layers or sglang."""
    model, kept = worker.draft_model, (worker._use_fused_kv_materialize, worker._fused_kv_helper)
    fc = model._modules["fc"]
    try:
        if name != "ours":
            worker._use_fused_kv_materialize, worker._fused_kv_helper = False, None
        if name == "sglang":
            del model._modules["fc"]
            model.__dict__["fc"] = plain
        yield
        assert name != "ours" or worker._use_fused_kv_materialize, "ours failed and fell back"
    finally:
        model.__dict__.pop("fc", None)
        model._modules["fc"] = fc
        worker._use_fused_kv_materialize, worker._fused_kv_helper = kept


def commit_of(worker: Any, rows: int) -> Callable[[], None]:
    """A commit of `rows` rows, 16 to a request where they divide."""
    device, per = worker.device, 16 if rows % 16 == 0 else 1
    taps = torch.randn(rows, worker.draft_model.fc.input_size, device=device).to(torch.bfloat16)
    slots = torch.arange(1, rows + 1, device=device)
    lens = torch.full((rows // per,), per, dtype=torch.int32, device=device)
    positions = torch.arange(rows, device=device)
    return lambda: worker._append_target_hidden_to_draft_kv_by_loc(
        target_hidden=taps, cache_loc=slots, cache_loc_2d=slots.view(-1, per), positions=positions, commit_lens=lens
    )


def written(worker: Any, rows: int) -> list[torch.Tensor]:
    pool, slots = worker.draft_model_runner.token_to_kv_pool, torch.arange(1, rows + 1, device=worker.device)
    layers = range(len(worker.draft_model.layers))
    return [buffer(i)[slots].float().clone() for i in layers for buffer in (pool.get_key_buffer, pool.get_value_buffer)]


def seconds(call: Callable[[], None], count: int) -> float:
    """Mean of `count` calls back to back."""
    gpu = torch.cuda.is_available()
    call()
    if gpu:
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    if gpu:
        torch.cuda.synchronize()
    return (time.perf_counter() - begin) / count


def graphed(call: Callable[[], None]) -> Callable[[], None]:
    """The same launches without the host."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def copy_rate(device: str) -> float:
    """Bytes a second, read and written, of a device copy."""
    source = torch.empty(1 << 30 if device.startswith("cuda") else 1 << 22, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() / seconds(lambda: target.copy_(source), 10)


def floor_bytes(shape: DraftConfig, rows: int) -> int:
    """Weights in FP8 once, taps read, K and V written, in BF16."""
    width, kv = len(shape.target_layer_ids) * shape.hidden_size, 2 * shape.num_kv_heads * shape.head_dim
    weights = shape.hidden_size * (width + shape.num_layers * kv)
    return weights + 2 * rows * (width + shape.num_layers * kv)


def measure(worker: Any, shape: DraftConfig, rows: int, count: int) -> dict[str, Any]:
    call, plain = commit_of(worker, rows), Plain(worker.draft_model.fc)
    result: dict[str, Any] = {"rows": rows}
    outputs = {}
    for name in ("ours", "layers", "sglang"):
        with arm(worker, name, plain):
            call()
            outputs[name] = written(worker, rows)
    for name in ("layers", "sglang"):
        pairs = zip(outputs["ours"], outputs[name], strict=True)
        result[f"error against {name}"] = max(float((a - b).norm() / b.norm()) for a, b in pairs)
    times: dict[str, list[float]] = {}
    for name in ("ours", "layers", "sglang", "sglang", "layers", "ours"):
        with arm(worker, name, plain):
            times.setdefault(f"{name} eager", []).append(seconds(call, count))
            if torch.cuda.is_available():
                times.setdefault(f"{name} graph", []).append(seconds(graphed(call), count))
    result |= {name: [1e6 * t for t in found] for name, found in times.items()}
    result["flops"] = 2 * rows * shape.hidden_size * (
        len(shape.target_layer_ids) * shape.hidden_size + 2 * shape.num_layers * shape.num_kv_heads * shape.head_dim
    )  # fmt: skip
    return result


def show(r: dict[str, Any]) -> None:
    layers, sglang = (r[f"error against {name}"] for name in ("layers", "sglang"))
    print(f"{r['rows']} rows: byte floor {r['floor us']:.1f} us, error {layers:.4f} (layers) {sglang:.4f} (sglang)")
    for form in ("eager", "graph"):
        found = {name: min(r[f"{name} {form}"]) for name in ("ours", "layers", "sglang") if f"{name} {form}" in r}
        if found:
            ours = found["ours"]
            text = "  ".join(f"{name} {us:.1f} us" for name, us in found.items())
            ratios = f"sglang / ours {found['sglang'] / ours:.2f}, ours / floor {ours / r['floor us']:.2f}"
            print(f"  {form}: {text}  {ratios}, {r['flops'] / ours / 1e6:.0f} TFLOP/s", flush=True)


def main(shape: DraftConfig = SHAPE, **more: Any) -> int:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    worker = start(out / "shapes", shape, **more)
    rate = copy_rate(worker.device)
    print(f"copy rate {rate / 1e12:.2f} TB/s, context by {type(worker._fused_kv_helper).__name__}", flush=True)
    results = []
    with torch.inference_mode():
        for rows in ROWS:
            r = measure(worker, shape, rows, 50 if torch.cuda.is_available() else 1)
            r["floor us"] = 1e6 * floor_bytes(shape, rows) / rate
            results.append(r)
            show(r)
    (out / "context_kv.json").write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
