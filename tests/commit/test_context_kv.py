"""K and V of all layers from one FP8 product are those of each layer's own projection."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from sglang_dspine.checkpoint.fp8 import quantise_rows
from sglang_dspine.commit.context_kv import ContextKV, StackedKV, why_not

HIDDEN, HEADS, KV_HEADS, SIZE = 48, 4, 2, 16


class Product:
    """The FP8 product as SGLang defines it, in float32: weight [H, N] with a scale a column, tokens quantised."""

    def __init__(self):
        self.calls = 0

    def apply(self, layer, x, bias):
        self.calls += 1
        assert layer.input_scale is None and layer.weight.stride(0) == 1  # the kernel wants whole columns
        values, scale = quantise_rows(x)
        return ((values.float() @ layer.weight.float()) * scale * layer.weight_scale).to(x.dtype)


class Norm(nn.Module):
    variance_epsilon = 1e-6

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(SIZE))

    def forward(self, x):
        return self.weight * x / x.square().mean(-1, keepdim=True).add(self.variance_epsilon).sqrt()


class Rotary:
    """No rotation: a phase by position is enough to see rows and positions mixed up."""

    is_neox_style, rotary_dim = True, SIZE

    def __init__(self, length):
        self.cos_sin_cache = torch.ones(length, SIZE)

    def _ensure_cos_sin_cache_length(self, last):
        self.cos_sin_cache = torch.ones(last + 1, SIZE)


def attention(product, rotary):
    q_size, kv_size = HEADS * SIZE, KV_HEADS * SIZE
    values, scale = quantise_rows(torch.randn(q_size + 2 * kv_size, HIDDEN))
    norm = Norm()
    return SimpleNamespace(
        q_size=q_size, kv_size=kv_size, num_kv_heads=KV_HEADS, head_dim=SIZE, k_norm=norm, rotary_emb=rotary,
        v_scale=None,
        qkv_proj=SimpleNamespace(weight=nn.Parameter(values.t(), requires_grad=False), input_scale=None, bias=None,
                                 weight_scale=nn.Parameter(scale.t().contiguous()), quant_method=product),
        apply_k_norm=lambda k: norm(k.reshape(-1, SIZE)).view_as(k),
        apply_k_rope=lambda positions, k: k * (1 + positions[:, None]),
    )  # fmt: skip


@pytest.fixture
def layers():
    torch.manual_seed(0)
    product, rotary = Product(), Rotary(8)
    return [SimpleNamespace(self_attn=attention(product, rotary)) for _ in range(3)]


def layer_by_layer(layers, x, positions):
    """What SGLang does for a quantised drafter: the full QKV product of each layer, Q thrown away."""
    for layer in layers:
        a = layer.self_attn
        _, k, v = a.qkv_proj.quant_method.apply(a.qkv_proj, x, None).split([a.q_size, a.kv_size, a.kv_size], -1)
        k = a.apply_k_rope(positions, a.apply_k_norm(k))
        yield k.view(-1, KV_HEADS, SIZE), v.view(-1, KV_HEADS, SIZE)


def materialized(context, x, positions):
    written = {}
    context.materialize(x, positions, lambda layer, k, v: written.setdefault(layer, (k, v)))
    return [written[layer] for layer in sorted(written)]


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_one_product_gives_what_the_layers_own_products_give(layers, rows):
    x, positions = torch.randn(rows, HIDDEN), torch.arange(rows)
    expected = list(layer_by_layer(layers, x, positions))
    product, context = layers[0].self_attn.qkv_proj.quant_method, ContextKV(layers, 8)
    product.calls = 0
    found = materialized(context, x, positions)
    assert product.calls == 1 and len(found) == len(layers)
    for (k, v), (expected_k, expected_v) in zip(found, expected, strict=True):
        assert torch.allclose(k, expected_k, rtol=1e-5, atol=1e-6) and torch.allclose(
            v, expected_v, rtol=1e-5, atol=1e-6
        )


def test_q_is_neither_held_nor_computed(layers):
    stacked = StackedKV(layers)
    assert stacked.weight.shape == (HIDDEN, 3 * 2 * KV_HEADS * SIZE) and stacked.weight.dtype == torch.float8_e4m3fn
    assert stacked.weight_scale.shape == (1, stacked.weight.shape[1])


def test_swapped_scales_of_two_layers_would_be_seen(layers):
    """The comparison above can fail."""
    x, positions = torch.randn(5, HIDDEN), torch.arange(5)
    expected = list(layer_by_layer(layers, x, positions))
    context = ContextKV(layers, 8)
    scales = context.project.weight_scale.data.view(3, -1)
    scales[[0, 1]] = scales[[1, 0]]
    found = materialized(context, x, positions)
    # keys are normalised, so a wrong scale of a whole head would hide there: values show it
    assert not torch.allclose(found[0][1], expected[0][1], rtol=1e-3)


def test_no_rows_write_nothing(layers):
    assert materialized(ContextKV(layers, 8), torch.empty(0, HIDDEN), torch.empty(0, dtype=torch.int64)) == []


def test_rope_reaches_the_last_position_that_can_be_committed(layers):
    assert ContextKV(layers, 40).rotary.cos_sin_cache.shape[0] == 40
    assert ContextKV(layers, 4).rotary.cos_sin_cache.shape[0] == 40


def _bf16(a):
    a.qkv_proj.weight = nn.Parameter(torch.randn(HEADS * SIZE * 2, HIDDEN, dtype=torch.bfloat16))


def _one_scale(a):
    a.qkv_proj.weight_scale = nn.Parameter(torch.ones(1))


def _bias(a):
    a.qkv_proj.bias = torch.zeros(1)


def _interleaved(a):
    a.rotary_emb = SimpleNamespace(is_neox_style=False)


@pytest.mark.parametrize(
    ("change", "said"),
    [(_bf16, "torch.bfloat16, not FP8"), (_one_scale, "a scale each"), (_bias, "a bias"), (_interleaved, "NeoX")],
)
def test_layers_it_cannot_serve_are_named_with_the_reason(layers, change, said):
    assert why_not(layers) == ""
    change(layers[1].self_attn)
    assert why_not(layers).startswith("layer 1:") and said in why_not(layers)
