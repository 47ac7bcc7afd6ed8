"""Draft layers: Qwen3 blocks, causal inside the drafted block, over an explicit context.

The context is what the target left behind: one row per committed position, from its captured layers.
It has no query side; every layer projects it to keys and values of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from sglang_dspine.config import DraftConfig

from .arithmetic import DEFAULT, Arithmetic
from .rope import rotary, rotate

Weights = Mapping[str, Tensor]  # canonical names, see docs of the checkpoint reader


def project_context(taps: Tensor, weights: Weights, config: DraftConfig, arithmetic: Arithmetic = DEFAULT) -> Tensor:
    """Captured target layers, concatenated: [N, S, taps·H] -> context [N, S, H]."""
    fused = arithmetic.product(taps, weights["fc.weight"])
    return arithmetic.rms_norm(fused, weights["hidden_norm.weight"], config.rms_norm_eps)


def visible(query: Tensor, key: Tensor, start: Tensor, window: int | None) -> Tensor:
    """Which positions a row attends to. All are int64 positions: [N, Q], [P], [N] -> bool [N, Q, P].

    `start` is the anchor's position. Positions up to the row's own are seen; a window hides only context,
    never rows of the block.
    """
    query, key, start = query[:, :, None], key[None, None, :], start[:, None, None]
    causal = key <= query
    if window is None:
        return causal
    return causal & ((key >= start) | (key > query - window))


def keys_and_values(x: Tensor, positions: Tensor, layer: Weights, config: DraftConfig, arithmetic: Arithmetic):
    """[N, S, H] at positions [N, S] -> keys, values [N, S, kv heads, head_dim]."""
    shape = (*x.shape[:-1], config.num_kv_heads, config.head_dim)
    keys = arithmetic.product(x, layer["self_attn.k_proj.weight"]).view(shape)
    values = arithmetic.product(x, layer["self_attn.v_proj.weight"]).view(shape)
    keys = arithmetic.rms_norm(keys, layer["self_attn.k_norm.weight"], config.rms_norm_eps)
    cos, sin = rotary(positions, config, x.dtype, arithmetic)
    return rotate(keys, cos.unsqueeze(-2), sin.unsqueeze(-2)), values


def attention(
    x: Tensor,
    context: Tensor,
    lengths: Tensor,
    layer: Weights,
    config: DraftConfig,
    window: int | None,
    arithmetic: Arithmetic = DEFAULT,
) -> Tensor:
    """Block rows x [N, B, H] over context [N, S, H], whose first `lengths` [N] rows count -> [N, B, H].

    Keys and values lie in one array indexed by position, as in a KV pool: context first, the block where
    its own positions say, so that visibility is a statement about positions alone.
    """
    (blocks, rows, _), span = x.shape, context.shape[1]
    query_at = lengths[:, None] + torch.arange(rows)  # [N, B]
    context_at = torch.arange(span).expand(blocks, span)  # [N, S]
    shape = (blocks, span + rows, config.num_kv_heads, config.head_dim)
    keys, values = x.new_zeros(shape), x.new_zeros(shape)
    keys[:, :span], values[:, :span] = keys_and_values(context, context_at, layer, config, arithmetic)
    block = torch.arange(blocks)[:, None]
    keys[block, query_at], values[block, query_at] = keys_and_values(x, query_at, layer, config, arithmetic)

    queries = arithmetic.product(x, layer["self_attn.q_proj.weight"])
    queries = queries.view(blocks, rows, config.num_heads, config.head_dim)
    queries = arithmetic.rms_norm(queries, layer["self_attn.q_norm.weight"], config.rms_norm_eps)
    cos, sin = rotary(query_at, config, x.dtype, arithmetic)
    queries = rotate(queries, cos.unsqueeze(-2), sin.unsqueeze(-2))

    share = config.num_heads // config.num_kv_heads  # query heads per kv head
    keys, values = (t.repeat_interleave(share, dim=2).transpose(1, 2) for t in (keys, values))
    logits = arithmetic.product(queries.transpose(1, 2), keys)  # [N, heads, B, P]
    logits = logits / math.sqrt(config.head_dim)
    seen = visible(query_at, torch.arange(span + rows), lengths, window).unsqueeze(1)
    probability = arithmetic.softmax(logits.masked_fill(~seen, -math.inf)).to(x.dtype)
    values = values.masked_fill(~seen.any(2).unsqueeze(-1), 0)  # padding may hold anything, NaN included
    mixed = arithmetic.product(probability, values.mT)  # [N, heads, B, D]
    return arithmetic.product(mixed.transpose(1, 2).flatten(2), layer["self_attn.o_proj.weight"])


def mlp(x: Tensor, layer: Weights, arithmetic: Arithmetic = DEFAULT) -> Tensor:
    """SwiGLU: [N, B, H] -> [N, B, H]."""
    gate = arithmetic.silu(arithmetic.product(x, layer["mlp.gate_proj.weight"]))
    up = arithmetic.product(x, layer["mlp.up_proj.weight"])
    return arithmetic.product(gate * up, layer["mlp.down_proj.weight"])


def draft_layer(
    h: Tensor,
    context: Tensor,
    lengths: Tensor,
    index: int,
    weights: Weights,
    config: DraftConfig,
    arithmetic: Arithmetic = DEFAULT,
) -> Tensor:
    """Layer `index` on the residual stream: h [N, B, H], context [N, S, H], lengths [N] -> [N, B, H]."""
    prefix = f"layers.{index}."
    layer = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
    x = arithmetic.rms_norm(h, layer["input_layernorm.weight"], config.rms_norm_eps)
    h = h + attention(x, context, lengths, layer, config, config.window_of(index), arithmetic)
    x = arithmetic.rms_norm(h, layer["post_attention_layernorm.weight"], config.rms_norm_eps)
    return h + mlp(x, layer, arithmetic)
