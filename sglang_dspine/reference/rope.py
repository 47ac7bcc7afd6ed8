"""Rotary position embedding of the draft layers: plain, or scaled as in YaRN."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sglang_dspine.config import DraftConfig
from sglang_dspine.errors import DSpineError

from .arithmetic import DEFAULT, Arithmetic


def rotary(positions: Tensor, config: DraftConfig, dtype: torch.dtype, arithmetic: Arithmetic = DEFAULT):
    """Cosines and sines for 1-D positions: [...] -> ([..., head_dim], [..., head_dim]) in `dtype`.

    The angles are taken in `arithmetic.wide`: a bfloat16 angle would be wrong by whole turns.
    """
    frequency, amplitude = frequencies(config, arithmetic.wide)
    angle = positions.to(arithmetic.wide).unsqueeze(-1) * frequency  # [..., head_dim / 2]
    angle = torch.cat((angle, angle), dim=-1)
    return (angle.cos() * amplitude).to(dtype), (angle.sin() * amplitude).to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair (x[d], x[d + head_dim/2]) by its angle: [..., head_dim] -> the same."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def frequencies(config: DraftConfig, dtype: torch.dtype) -> tuple[Tensor, float]:
    """Radians per position of each pair, [head_dim / 2], and the factor on cosine and sine."""
    dim = config.head_dim
    frequency = config.rope_theta ** (-torch.arange(0, dim, 2, dtype=dtype) / dim)
    scaling = config.rope_scaling or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return frequency, 1.0
    if kind != "yarn":
        raise DSpineError(f"rope type {kind!r}: the drafter knows 'default' and 'yarn'")
    return yarn(frequency, scaling, config)


def yarn(frequency: Tensor, scaling: dict, config: DraftConfig) -> tuple[Tensor, float]:
    """Slow pairs interpolated, fast pairs kept, a ramp between. Source: YaRN (arXiv 2309.00071), section 3.

    A pair that turns more than `beta_fast` times within the original length has seen all its phases in
    training and stays; one that turns less than `beta_slow` times is stretched by `factor`.
    """
    dim = config.head_dim
    original = scaling.get("original_max_position_embeddings") or config.max_position_embeddings
    factor = scaling.get("factor") or config.max_position_embeddings / original

    def pair_turning(times: float) -> float:
        return dim * math.log(original / (times * 2 * math.pi)) / (2 * math.log(config.rope_theta))

    low = pair_turning(scaling.get("beta_fast") or 32)
    high = pair_turning(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp = (torch.arange(dim // 2, dtype=frequency.dtype) - low) / max(high - low, 0.001)
    stretched = ramp.clamp(0, 1)
    return frequency * (1 - stretched) + frequency / factor * stretched, yarn_amplitude(scaling, factor)


def yarn_amplitude(scaling: dict, factor: float) -> float:
    """Factor on cosine and sine, hence its square on attention logits."""

    def of(mscale: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0

    if scaling.get("attention_factor") is not None:
        return scaling["attention_factor"]
    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return of(scaling["mscale"]) / of(scaling["mscale_all_dim"])
    return of(1.0)
