"""Normalisations of Qwen3.5: Gemma-style (1 + w) head norms, and RMSNorm gated by SiLU."""

from __future__ import annotations

import torch
import torch.nn.functional as F

OPS = (
    "fused_qk_gemma_rmsnorm_cpu",
    "fused_qk_gemma_rmsnorm_with_gate_cpu",
    "fused_rmsnorm_gated_cpu",
)


def rms(x: torch.Tensor, eps: float) -> torch.Tensor:
    """x [..., D] over its root mean square, in float32."""
    x = x.float()
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def fused_qk_gemma_rmsnorm_cpu(q, k, q_weight, k_weight, eps, head_dim):
    """q, k [tokens, heads * D] -> each [tokens * heads, D], scaled by 1 + weight [D]."""
    q_out = rms(q.reshape(-1, head_dim), eps) * (1 + q_weight.float())
    k_out = rms(k.reshape(-1, head_dim), eps) * (1 + k_weight.float())
    return q_out.to(q.dtype), k_out.to(k.dtype)


def fused_qk_gemma_rmsnorm_with_gate_cpu(q_gate, k, q_weight, k_weight, eps, head_dim, heads):
    """q_gate [tokens, heads * 2D] holds query and gate of a head side by side; the gate passes unchanged."""
    q, gate = q_gate.reshape(-1, heads, 2 * head_dim).chunk(2, -1)
    q, k = fused_qk_gemma_rmsnorm_cpu(q, k, q_weight, k_weight, eps, head_dim)
    return q, k, gate.reshape(-1, head_dim).contiguous()


def fused_rmsnorm_gated_cpu(x, weight, gate, eps):
    """RMSNorm(x) * weight * SiLU(gate); x, gate [rows, D], weight [D]."""
    return (rms(x, eps) * weight.float() * F.silu(gate.double()).float()).to(x.dtype)
