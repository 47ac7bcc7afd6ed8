"""Tiny random drafters on disk, in any layout, from a DraftConfig and a seed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from sglang_dspine.checkpoint import Layout, expected_shapes
from sglang_dspine.checkpoint.expected import is_fp8_linear
from sglang_dspine.config import DraftConfig, render_config

TINY = DraftConfig(
    hidden_size=32,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    intermediate_size=48,
    vocab_size=67,
    block_size=16,
    mask_token_id=66,
    target_layer_ids=(0, 2),
    num_target_layers=4,
    transfer_rank=16,
    message_size=8,
    top_k=16,
    rms_norm_eps=1e-6,
    rope_theta=10000.0,
    rope_scaling=None,
    max_position_embeddings=256,
    layer_types=("full_attention", "full_attention"),
    sliding_window=None,
)
SLIDING = replace(TINY, layer_types=("sliding_attention",) * 2, sliding_window=12)


def random_tensors(
    config: DraftConfig = TINY, *, seed: int = 0, dtype: torch.dtype = torch.bfloat16
) -> dict[str, torch.Tensor]:
    """Every tensor of the drafter by canonical name: norms near one, codes of unit rows, a live bridge."""
    random = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in expected_shapes(config).items():
        values = torch.randn(shape, generator=random)
        if name.endswith("norm.weight"):
            values = 1 + 0.1 * values
        elif name == "transfer_codes":
            values = torch.nn.functional.normalize(values, dim=-1)
        elif len(shape) == 2:
            values = values / shape[1] ** 0.5
        tensors[name] = values.to(dtype)
    return tensors


def quantise_rows(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[out, in] to float8_e4m3fn [out, in] and a float32 scale [out, 1] (448 is the largest e4m3 value)."""
    scale = weight.float().abs().amax(dim=1, keepdim=True).clamp(min=1e-10) / 448
    return (weight.float() / scale).to(torch.float8_e4m3fn), scale


def write_checkpoint(
    folder: Path,
    config: DraftConfig = TINY,
    *,
    layout: Layout = Layout.SPECFORGE,
    seed: int = 0,
    dtype: torch.dtype = torch.bfloat16,
    shards: int = 1,
    tensors: dict[str, torch.Tensor] | None = None,
) -> dict[str, torch.Tensor]:
    """Write a checkpoint that loads; returns what loading it must give, by canonical name."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = random_tensors(config, seed=seed, dtype=dtype) if tensors is None else dict(tensors)
    stored, raw = dict(weights), render_config(config)
    if layout is Layout.REFERENCE:
        save_file({"codes": stored.pop("transfer_codes")}, folder / "transfer.safetensors")
        raw = {"config": raw}
    else:
        stored["transfer_ready"] = torch.tensor(True)
    if layout is Layout.FP8:
        for name in filter(is_fp8_linear, weights):
            stored[name], scale = quantise_rows(weights[name])
            stored[f"{name}_scale"] = scale
            weights[name] = (stored[name].float() * scale).to(torch.bfloat16)
    (folder / "config.json").write_text(json.dumps(raw, indent=1))
    write_shards(folder, stored, shards)
    return weights


def write_shards(folder: Path, stored: dict[str, torch.Tensor], shards: int) -> None:
    if shards == 1:
        save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names, weight_map = sorted(stored), {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = {name: stored[name] for name in names[shard::shards]}
        save_file(part, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def edit_config(folder: Path, **changes: object) -> None:
    """Set config entries; a dotted path is written with `__`, and None removes the entry."""
    path = folder / "config.json"
    raw = json.loads(path.read_text())
    for key, value in changes.items():
        *sections, last = key.split("__")
        node = raw.get("config", raw)
        for section in sections:
            node = node[section]
        if value is None:
            node.pop(last, None)
        else:
            node[last] = value
    path.write_text(json.dumps(raw))


def edit_tensors(folder: Path, file: str = "model.safetensors", **changes: object) -> None:
    """Replace tensors of a file by a function of the old one; `None` removes, a tensor adds. `__` is `.`."""
    tensors = load_file(folder / file)
    for key, change in changes.items():
        name = key.replace("__", ".")
        if change is None:
            del tensors[name]
        else:
            tensors[name] = change(tensors[name].clone()) if callable(change) else change
    save_file(tensors, folder / file)


def change_a_bit(file: Path) -> None:
    """In the last byte: of a safetensors file a value, so that its header still reads."""
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
