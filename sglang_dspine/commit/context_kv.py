"""Context rows into the draft's KV for a quantised drafter: K and V of all layers in one product.

SGLang does this for BF16 drafters (kernels/ops/speculative/fused_kv_materialize.py) and gives it up when `qkv_proj` is
quantised: one full QKV product a layer, Q thrown away. Here the K and V columns of every layer's FP8 weight, with
their scales, stand side by side as one linear layer and go through SGLang's own FP8 product. T rows, L layers, H
hidden, kv = KV heads times head size, D head size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

WriteLayer = Callable[[int, torch.Tensor, torch.Tensor], None]  # layer, K [T, heads, D], V [T, heads, D]


def why_not(layers: Any) -> str:
    """The reason why these layers cannot be served by `ContextKV`, or an empty string."""
    for index, layer in enumerate(layers):
        attention = layer.self_attn
        weight, scale = attention.qkv_proj.weight, getattr(attention.qkv_proj, "weight_scale", None)
        if weight.dtype != torch.float8_e4m3fn or scale is None or scale.numel() != weight.shape[1]:
            return f"layer {index}: qkv_proj holds {weight.dtype}, not FP8 columns with a scale each"
        if attention.qkv_proj.bias is not None or attention.v_scale is not None:
            return f"layer {index}: qkv_proj has a bias, or values are scaled"
        if not getattr(attention.rotary_emb, "is_neox_style", True):
            return f"layer {index}: RoPE is not in NeoX form"
    return ""


class StackedKV(nn.Module):
    """The K and V columns of every layer's `qkv_proj` as one FP8 linear layer: [T, H] -> [T, L, 2 * kv]."""

    input_scale = None  # activations are quantised token by token

    def __init__(self, layers: Any) -> None:
        super().__init__()
        values, scales = [], []
        for layer in layers:
            a = layer.self_attn
            columns = slice(a.q_size, a.q_size + 2 * a.kv_size)
            # SGLang keeps the weight transposed, [H, columns]; bytes, since not every torch can concatenate FP8
            values.append(a.qkv_proj.weight.data.t()[columns].view(torch.uint8))
            scales.append(a.qkv_proj.weight_scale.data.reshape(-1)[columns])
        self.layers, self.method = len(values), layers[0].self_attn.qkv_proj.quant_method
        stacked = torch.cat(values).view(torch.float8_e4m3fn)  # [L * 2 * kv, H]
        self.weight = nn.Parameter(stacked.t(), requires_grad=False)
        self.weight_scale = nn.Parameter(torch.cat(scales)[None].contiguous(), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.method.apply(self, x, None).view(x.shape[0], self.layers, -1)


class ContextKV:
    """Stands where SGLang's worker keeps its `FusedKVMaterializeHelper`."""

    def __init__(self, layers: Any, positions: int) -> None:
        """positions: RoPE is needed for positions 0 .. positions - 1."""
        self.attention = [layer.self_attn for layer in layers]
        self.project = StackedKV(layers)
        self.rotary = self.attention[0].rotary_emb
        if self.rotary.cos_sin_cache.shape[0] < positions:
            self.rotary._ensure_cos_sin_cache_length(positions - 1)
        norms = [a.k_norm for a in self.attention]
        self.norm_weights = torch.stack([norm.weight.data for norm in norms])  # [L, D]
        self.eps = torch.tensor([norm.variance_epsilon for norm in norms], device=self.norm_weights.device)

    def materialize(self, ctx_hidden: torch.Tensor, positions: torch.Tensor, write_layer_kv: WriteLayer) -> None:
        """Project, normalise, rotate and write ctx_hidden [T, H] at positions [T]; called by SGLang's worker."""
        if not ctx_hidden.shape[0]:
            return
        kv = self.project(ctx_hidden)  # [T, L, 2 * kv]
        keys, values = self._on_gpu(kv, positions) if kv.is_cuda else self._plain(kv, positions)
        for layer in range(len(self.attention)):
            write_layer_kv(layer, keys[layer], values[layer])

    def _on_gpu(self, kv: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """SGLang's kernel: norm and RoPE of all layers' keys in one launch. -> [L, T, heads, D] twice"""
        from sglang.kernels.ops.speculative.fused_kv_materialize import _fused_norm_rope_stacked

        a, table = self.attention[0], self.rotary.cos_sin_cache
        return _fused_norm_rope_stacked(
            kv, self.norm_weights, self.eps, table, positions, a.num_kv_heads, a.head_dim, self.rotary.rotary_dim
        )

    def _plain(self, kv: torch.Tensor, positions: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Layer by layer with the layers' own norm and RoPE, where there is no GPU."""
        keys, values = [], []
        for layer, a in enumerate(self.attention):
            k, v = kv[:, layer].split(a.kv_size, dim=-1)
            k = a.apply_k_rope(positions, a.apply_k_norm(k.contiguous()))
            keys.append(k.view(-1, a.num_kv_heads, a.head_dim))
            values.append(v.reshape(-1, a.num_kv_heads, a.head_dim))
        return keys, values
