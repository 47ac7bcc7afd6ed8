"""Attention for a draft whose window is shorter than its block.

Training lets a block row see all block rows before it and windows only the context (dspine-spec, "Backbone"). SGLang's
sliding window cuts both, which is the same thing until the window is shorter than the block. No served drafter is like
that (8,192 against 16), but such a checkpoint loads, and then must be right: so short a window shows a block at most
window - 1 context positions, which are gathered into a small dense attention of fixed shape, as graphs need it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class NarrowWindowAttention(nn.Module):
    """Stands in for a layer's RadixAttention; its attributes (k_scale, layer_id, ...) are the original's."""

    def __init__(self, attention: nn.Module, window: int, width_of: Any) -> None:
        """window: row at position p sees context positions > p - window; width_of(): rows per block right now."""
        super().__init__()
        self.attention, self.window, self.width_of = attention, window, width_of
        self.runner: Any = None  # the draft's model runner, set by the worker: pools are made after the model

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("attention"), name)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, forward_batch: Any) -> torch.Tensor:
        """q [N*w, heads*D], k and v [N*w, kv_heads*D] -> [N*w, heads*D]"""
        a: Any = self.attention
        w, reach = self.width_of(), self.window - 1
        n, lens = q.shape[0] // w, forward_batch.seq_lens[: q.shape[0] // w]
        before = lens[:, None] - torch.arange(reach, 0, -1, device=lens.device)  # [N, reach] positions
        slots = self.runner.req_to_token_pool.req_to_token[
            forward_batch.req_pool_indices[:n, None], before.clamp_min(0)
        ]
        pool, heads = self.runner.token_to_kv_pool, a.tp_k_head_num
        keys = torch.cat([pool.get_key_buffer(a.layer_id)[slots].to(k.dtype), k.view(n, w, heads, -1)], 1)
        values = torch.cat([pool.get_value_buffer(a.layer_id)[slots].to(v.dtype), v.view(n, w, heads, -1)], 1)
        row, column = torch.arange(w, device=lens.device), torch.arange(reach, device=lens.device)
        context = (column[None] >= row[:, None]) & (before >= 0)[:, None]  # row i has lost the i oldest positions
        block = (row[:, None] >= row[None]).expand(n, w, w)
        group = a.tp_q_head_num // heads
        out = nn.functional.scaled_dot_product_attention(
            q.view(n, w, a.tp_q_head_num, -1).transpose(1, 2),
            keys.repeat_interleave(group, 2).transpose(1, 2),
            values.repeat_interleave(group, 2).transpose(1, 2),
            attn_mask=torch.cat([context, block], -1)[:, None],
            scale=a.scaling,
        )
        return out.transpose(1, 2).reshape(q.shape[0], -1)


def widen_block(model: Any) -> None:
    """Replace the attention of every layer whose window is shorter than the block."""
    for index, layer in enumerate(model.layers):
        window = model.dspine.window_of(index)
        if window is not None and window < model.dspine.block_size:
            layer.self_attn.attn = NarrowWindowAttention(layer.self_attn.attn, window, lambda: model.width)


def narrow_layers(model: Any) -> list[NarrowWindowAttention]:
    """The replaced attentions of a draft model."""
    attentions = [layer.self_attn.attn for layer in model.layers]
    return [attention for attention in attentions if isinstance(attention, NarrowWindowAttention)]
