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
    if config.rope_scaling is None:
        return frequency, 1.0
    if config.rope_scaling["rope_type"] != "yarn":
        raise DSpineError(f"rope_type: expected 'yarn' or no scaling, found {config.rope_scaling['rope_type']!r}")
    return yarn(frequency, config), config.rope_scaling["attention_factor"]


def yarn(frequency: Tensor, config: DraftConfig) -> Tensor:
    """Slow pairs stretched, fast pairs kept, a ramp between: [head_dim / 2] -> the same.

    A pair that turns more than `beta_fast` times within the original length has met all its phases in
    training and stays; one that turns less than `beta_slow` times is slowed by `factor`.
    Source: YaRN (arXiv 2309.00071), section 3.2.
    """
    dim, scaling = config.head_dim, config.rope_scaling or {}

    def pair_turning(times: float) -> float:
        turns = scaling["original_max_position_embeddings"] / (times * 2 * math.pi)
        return dim * math.log(turns) / (2 * math.log(config.rope_theta))

    low, high = pair_turning(scaling["beta_fast"]), pair_turning(scaling["beta_slow"])
    if scaling["truncate"]:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    width = high - low or 0.001  # an empty ramp is a step
    stretched = ((torch.arange(dim // 2, dtype=frequency.dtype) - low) / width).clamp(0, 1)
    return frequency * (1 - stretched) + frequency / scaling["factor"] * stretched
