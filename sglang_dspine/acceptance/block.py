"""The backbone of DFlash drafters: Qwen3 layers over an explicit context, whose rows may see later rows of the block.

N blocks of B rows, a context of P rows of which `lengths` count, H hidden.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from ..reference.arithmetic import DEFAULT
from ..reference.backbone import Weights, keys_and_values, mlp
from ..reference.rope import rotary, rotate
from .flash import FlashConfig


def run_block(h: Tensor, context: Tensor, lengths: Tensor, weights: Weights, config: FlashConfig) -> Tensor:
    """Embedded rows h [N, B, H] over a projected context [N, P, H] -> [N, B, H] after the final norm."""
    eps = config.shapes.rms_norm_eps
    for index in range(config.shapes.num_layers):
        prefix = f"layers.{index}."
        layer = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
        x, after = _convolved(DEFAULT.rms_norm(h, layer["input_layernorm.weight"], eps), layer, "attention", config)
        h = h + after(_attention(x, context, lengths, layer, config, index))
        x, after = _convolved(DEFAULT.rms_norm(h, layer["post_attention_layernorm.weight"], eps), layer, "mlp", config)
        h = h + after(mlp(x, layer))
    return DEFAULT.rms_norm(h, weights["norm.weight"], eps)


def _attention(x: Tensor, context: Tensor, lengths: Tensor, layer: Weights, config: FlashConfig, index: int) -> Tensor:
    c = config.shapes
    (n, b, _), p = x.shape, context.shape[1]
    at = lengths[:, None] + torch.arange(b)  # [N, B] positions of rows
    where = torch.arange(p).expand(n, p)  # [N, P] of context
    shape = (n, -1, c.num_heads, c.head_dim)
    q = DEFAULT.rms_norm(
        (x @ layer["self_attn.q_proj.weight"].T).view(shape), layer["self_attn.q_norm.weight"], c.rms_norm_eps
    )
    cos, sin = rotary(at, c, x.dtype, DEFAULT)
    q = rotate(q, cos.unsqueeze(-2), sin.unsqueeze(-2))
    (k_old, v_old), (k_new, v_new) = (keys_and_values(y, w, layer, c, DEFAULT) for y, w in ((context, where), (x, at)))
    share = c.num_heads // c.num_kv_heads
    k, v = (torch.cat(pair, 1).repeat_interleave(share, 2).transpose(1, 2) for pair in ((k_old, k_new), (v_old, v_new)))
    seen = _seen(at, where, lengths, c.window_of(index), config.causal[index])
    logits = (q.transpose(1, 2) @ k.mT) / math.sqrt(c.head_dim)
    weight = logits.masked_fill(~seen[:, None], -math.inf).float().softmax(-1).to(x.dtype)
    return (weight @ v).transpose(1, 2).flatten(2) @ layer["self_attn.o_proj.weight"].T


def _seen(at: Tensor, where: Tensor, lengths: Tensor, window: int | None, causal: bool) -> Tensor:
    """Rows at positions at [N, B] see of the context at [N, P] and of the block: [N, B, P + B]."""
    b = at.shape[1]
    context = (where < lengths[:, None])[:, None].expand(-1, b, -1)
    if window is not None:
        context = context & (where[:, None] > at[..., None] - window)
    block = torch.ones(b, b, dtype=torch.bool)
    return torch.cat([context, (block.tril() if causal else block).expand(len(at), -1, -1)], -1)


def _convolved(x: Tensor, layer: Weights, around: str, config: FlashConfig):
    """A sublayer's input, convolved over the block's rows, and what convolves its output (DFlash2).

    Kernels of `conv_taps` rows: a fixed one per channel, and one per group of channels computed from the input.
    """
    if not config.conv_taps:
        return x, lambda y: y
    taps, groups = config.conv_taps, x.shape[-1] // config.conv_group
    base = layer[f"{around}_conv.base_kernel"]  # [2, taps, H]
    made = (x @ layer[f"{around}_conv.kernel_projection.weight"].T).view(*x.shape[:-1], 2, taps, groups)

    def convolve(y: Tensor, side: int) -> Tensor:
        kernel = base[side] + made[..., side, :, :].repeat_interleave(config.conv_group, -1)  # [N, B, taps, H]
        shifted = [F.pad(y, (0, 0, tap, 0))[:, : y.shape[1]] for tap in range(taps)]
        return sum((kernel[..., tap, :] * row for tap, row in enumerate(shifted)), torch.zeros_like(y))

    return convolve(x, 0), lambda y: convolve(y, 1)
