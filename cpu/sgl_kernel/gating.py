"""Elementwise gates, and the split of the gated-delta layer's packed projections.

PyTorch's float32 exponentials differ in the last bit with an element's place in the tensor. Gates are therefore
taken in float64 and rounded: a token's gate is the same whichever tokens are computed beside it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

OPS = ("fused_gdn_gating_cpu", "fused_qkvzba_split_reshape_cat_contiguous_cpu", "fused_sigmoid_mul_cpu")


def fused_sigmoid_mul_cpu(x, gate):
    """x *= sigmoid(gate), in place."""
    return x.mul_(torch.sigmoid(gate.double()).to(x.dtype).view_as(x))


def fused_qkvzba_split_reshape_cat_contiguous_cpu(qkvz, ba, k_heads, v_heads, k_dim, v_dim):
    """qkvz [T, 2*HK*K + 2*HV*V], ba [T, 2*HV] -> qkv [T, .], z [T, HV, V], b [T, HV], a [T, HV]."""
    qkv_dim = 2 * k_heads * k_dim + v_heads * v_dim
    b, a = ba.split([v_heads, v_heads], -1)
    z = qkvz[:, qkv_dim:].reshape(-1, v_heads, v_dim)
    return qkvz[:, :qkv_dim].contiguous(), z, b.contiguous(), a.contiguous()


def fused_gdn_gating_cpu(a_log, a, b, dt_bias):
    """a, b [T, HV] -> log decay g and step size beta, each float32 [1, T, HV]."""
    g = -a_log.double().exp() * F.softplus(a.double() + dt_bias.double())
    return g.float()[None], torch.sigmoid(b.double()).float()[None]
