"""The golden cases, and small random drafters for the properties."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from hypothesis import settings
from safetensors.torch import load_file

from sglang_dspine.config import DraftConfig, load_config
from sglang_dspine.reference import DEFAULT, Drafter

VECTORS = Path(__file__).parents[1] / "data" / "vectors"
CASES = ("full", "window")
few = settings(max_examples=12, deadline=None, derandomize=True)  # a block costs tens of milliseconds
DTYPES = {"f64": torch.float64, "f32": torch.float32}


def config_of(case: str) -> DraftConfig:
    return load_config(VECTORS / case)


@cache
def tensors(case: str, name: str) -> dict[str, torch.Tensor]:
    return load_file(VECTORS / case / f"{name}.safetensors")


def weights_of(case: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return {k: v.to(dtype) for k, v in tensors(case, "model").items() if v.is_floating_point()}


def drafter_of(case: str, dtype: torch.dtype, arithmetic=DEFAULT, low_rank=False, **changed) -> Drafter:
    """A golden drafter; `changed` replaces weights, dots in their names written as double underscores."""
    weights = weights_of(case, dtype) | {k.replace("__", "."): v.to(dtype) for k, v in changed.items()}
    target = tensors(case, "vectors")
    return Drafter(
        config_of(case),
        weights,
        target["target.embed"].to(dtype),
        target["target.lm_head"].to(dtype),
        arithmetic=arithmetic,
        low_rank=low_rank,
    )


def golden(case: str, dtype_name: str, index: int) -> dict[str, torch.Tensor]:
    prefix = f"{dtype_name}.{index}."
    return {k.removeprefix(prefix): v for k, v in tensors(case, "vectors").items() if k.startswith(prefix)}


def random_inputs(
    case: str, seed: int, blocks: int, span: int, dtype=torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random captured layers [N, S, taps·H] and anchors [N] of a golden drafter's shapes."""
    config, generator = config_of(case), torch.Generator().manual_seed(seed)
    width = len(config.target_layer_ids) * config.hidden_size
    taps = torch.randn(blocks, span, width, generator=generator, dtype=torch.float64).to(dtype)
    return taps, torch.randint(config.vocab_size, (blocks,), generator=generator)


def silent(case: str) -> dict[str, torch.Tensor]:
    """Changes that leave the bridge nothing to write, for `drafter_of`."""
    config = config_of(case)
    zeros = torch.zeros(config.hidden_size, config.message_size)
    return {f"injection__writes__{i}__weight": zeros for i in range(config.num_layers)}
