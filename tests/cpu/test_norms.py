"""Norms and gates against their formulas, number by number in float64."""

from __future__ import annotations

import math

import pytest
import torch

norms = pytest.importorskip("sgl_kernel.norms")
gating = pytest.importorskip("sgl_kernel.gating")

EPS = 1e-6


def over_rms(row):
    return [float(x) / math.sqrt(sum(float(y) ** 2 for y in row) / len(row) + EPS) for x in row]


def sigmoid(x):
    return 1 / (1 + math.exp(-float(x)))


def close(found, expected):
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


def test_head_norms_scale_by_one_plus_weight():
    q, k, q_weight, k_weight = torch.randn(3, 2 * 4), torch.randn(3, 4), torch.randn(4), torch.randn(4)
    q_out, k_out = norms.fused_qk_gemma_rmsnorm_cpu(q, k, q_weight, k_weight, EPS, 4)
    for found, given, weight in ((q_out, q, q_weight), (k_out, k, k_weight)):
        rows = [[x * (1 + float(w)) for x, w in zip(over_rms(r), weight, strict=True)] for r in given.view(-1, 4)]
        close(found, rows)


def test_the_gate_lies_behind_each_head_of_the_query():
    packed, k, weight = torch.randn(3, 2 * 8), torch.randn(3, 4), torch.randn(4)
    q, _, gate = norms.fused_qk_gemma_rmsnorm_with_gate_cpu(packed, k, weight, weight, EPS, 4, 2)
    heads = packed.view(3, 2, 2, 4)
    plain, _ = norms.fused_qk_gemma_rmsnorm_cpu(heads[:, :, 0].reshape(3, 8), k, weight, weight, EPS, 4)
    assert torch.equal(q, plain)
    assert torch.equal(gate, heads[:, :, 1].reshape(6, 4))


def test_gated_norm_is_norm_times_silu_of_the_gate():
    x, gate, weight = torch.randn(3, 4), torch.randn(3, 4), torch.randn(4)
    rows = [
        [n * float(w) * float(z) * sigmoid(z) for n, w, z in zip(over_rms(r), weight, g, strict=True)]
        for r, g in zip(x, gate, strict=True)
    ]
    close(norms.fused_rmsnorm_gated_cpu(x, weight, gate, EPS), rows)


def test_sigmoid_gate_multiplies_in_place():
    x, gate = torch.randn(3, 4), torch.randn(3, 4)
    rows = [[float(a) * sigmoid(b) for a, b in zip(r, g, strict=True)] for r, g in zip(x, gate, strict=True)]
    gating.fused_sigmoid_mul_cpu(x, gate)
    close(x, rows)


def test_decay_and_step_size_of_the_delta_rule():
    a_log, dt_bias, a, b = torch.randn(2), torch.randn(2), torch.randn(3, 2), torch.randn(3, 2)
    g, beta = gating.fused_gdn_gating_cpu(a_log, a, b, dt_bias)
    softplus = [[math.log1p(math.exp(float(x) + float(d))) for x, d in zip(r, dt_bias, strict=True)] for r in a]
    close(g[0], [[-math.exp(float(w)) * s for w, s in zip(a_log, r, strict=True)] for r in softplus])
    close(beta[0], [[sigmoid(x) for x in r] for r in b])


def test_packed_projections_come_apart():
    k_heads, v_heads, k_dim, v_dim = 2, 4, 3, 5
    parts = {"qkv": 2 * k_heads * k_dim + v_heads * v_dim, "z": v_heads * v_dim}
    qkvz = torch.arange(2 * sum(parts.values())).view(2, -1)
    ba = torch.arange(2 * 2 * v_heads).view(2, -1)
    qkv, z, b, a = gating.fused_qkvzba_split_reshape_cat_contiguous_cpu(qkvz, ba, k_heads, v_heads, k_dim, v_dim)
    assert torch.equal(torch.cat([qkv, z.reshape(2, -1)], -1), qkvz)
    assert z.shape == (2, v_heads, v_dim)
    assert torch.equal(torch.cat([b, a], -1), ba)
