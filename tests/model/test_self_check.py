"""The self-check's numbers: what they are of, and when they refuse."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from sglang_dspine.errors import DSpineError
from sglang_dspine.model.self_check import Findings, compare, cosines, linear_errors, make_probe
from tests.support.checkpoints import TINY, random_tensors

SOUND = Findings(60, 56, 0.995, 0.95, "fc", 0.045)


def test_a_sound_draft_passes():
    SOUND.require()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"same_top1": 30}, "the same top-1 in at least 60% of rows"),
        ({"cosine": 0.94}, "mean cosine at least 0.95"),
        ({"cosine": float("nan")}, "mean cosine"),
        ({"linear_error": 0.11}, "error of fc at most 0.1"),
        ({"linear_error": float("inf")}, "error of fc"),
    ],
    ids=str,
)
def test_below_a_threshold_it_refuses_with_all_numbers_and_what_to_do(change, said):
    found = replace(SOUND, **change)
    with pytest.raises(DSpineError, match=said) as error:
        found.require()
    assert str(found) in str(error.value) and "DSPINE_SELF_CHECK=0" in str(error.value)


def test_layers_that_were_not_compared_do_not_refuse():
    replace(SOUND, worst_linear="", linear_error=9.0).require()


def test_the_probe_is_always_the_same_and_fits_the_drafter():
    probe, again = make_probe(TINY), make_probe(TINY)
    assert torch.equal(probe.taps, again.taps) and torch.equal(probe.anchors, again.anchors)
    assert probe.taps.shape[-1] == 2 * TINY.hidden_size and int(probe.anchors.max()) < TINY.vocab_size
    assert len(set(probe.lengths.tolist())) == len(probe.lengths) and int(probe.lengths.min()) > 0


def test_rows_that_are_not_finite_agree_with_nothing():
    good, bad = torch.randn(2, 4), torch.tensor([[1.0, float("nan"), 0, 0], [float("inf"), 0, 0, 0]])
    assert cosines(good, bad).tolist() == [-1, -1] and torch.allclose(cosines(good, 3 * good), torch.ones(2))


def test_the_anchor_row_is_not_judged():
    """Row 0 proposes nothing, and the bridge never writes it."""
    states = torch.randn(2, 4, 8)
    other = states.clone()
    other[:, 0] = -other[:, 0]
    found = compare(other, states, lambda h: h.argmax(-1), {"fc": 0.1, "layers.0.mlp.down_proj": 0.2})
    assert (found.rows, found.same_top1, round(found.cosine, 6)) == (6, 6, 1.0)
    assert (found.worst_linear, found.linear_error) == ("layers.0.mlp.down_proj", 0.2)


def served_model(weights):
    """Linear layers as SGLang fuses them, on the given weights."""
    model = nn.Module()
    model.fc = linear(weights["fc.weight"])
    model.layers = nn.ModuleList()
    for i in range(TINY.num_layers):
        layer = nn.Module()
        layer.self_attn, layer.mlp = nn.Module(), nn.Module()
        part = {n.removeprefix(f"layers.{i}.").removesuffix(".weight"): w for n, w in weights.items()}
        layer.self_attn.qkv_proj = linear(*(part[f"self_attn.{x}_proj"] for x in "qkv"))
        layer.self_attn.o_proj = linear(part["self_attn.o_proj"])
        layer.mlp.gate_up_proj = linear(part["mlp.gate_proj"], part["mlp.up_proj"])
        layer.mlp.down_proj = linear(part["mlp.down_proj"])
        model.layers.append(layer)
    return model


def linear(*parts):
    whole = torch.cat(parts)
    module = nn.Linear(whole.shape[1], whole.shape[0], bias=False)
    module.weight.data = whole
    return module


@torch.no_grad()
def test_every_linear_layer_is_compared_with_its_own_weights():
    weights = random_tensors(dtype=torch.float32)
    found = dict(linear_errors(served_model(weights), weights))
    assert len(found) == 1 + 4 * TINY.num_layers and max(found.values()) < 1e-6
    assert dict(linear_errors(served_model(weights), {"fc.weight": weights["fc.weight"]})).keys() == {"fc"}
    k, v = "layers.1.self_attn.k_proj.weight", "layers.1.self_attn.v_proj.weight"
    swapped = weights | {k: weights[v], v: weights[k]}
    bad = {name for name, error in linear_errors(served_model(swapped), weights) if error > 0.1}
    assert bad == {"layers.1.self_attn.qkv_proj"}


@torch.no_grad()
@pytest.mark.parametrize(("factor", "expected"), [(1.3, 0.3), (float("nan"), float("inf"))])
def test_a_wrong_scale_and_numbers_that_are_not_finite_are_errors(factor, expected):
    weights = random_tensors(dtype=torch.float32)
    model = served_model(weights)
    model.fc.weight.mul_(factor)
    assert dict(linear_errors(model, weights))["fc"] == pytest.approx(expected)


@torch.no_grad()
def test_a_layer_of_zeros_may_give_zeros_and_nothing_else():
    weights = random_tensors(dtype=torch.float32)
    weights["fc.weight"].zero_()
    model = served_model(weights)
    assert dict(linear_errors(model, weights))["fc"] == 0
    model.fc.weight.data = weights["fc.weight"] + 1e-3
    assert dict(linear_errors(model, weights))["fc"] == float("inf")


@torch.no_grad()
def test_what_sglang_pads_a_layer_with_is_not_compared():
    weights = random_tensors(dtype=torch.float32)
    model, pad = served_model(weights), torch.nn.functional.pad
    gate, up, down = (weights[f"layers.0.mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
    noise = torch.randn(5, gate.shape[1])
    model.layers[0].mlp.gate_up_proj = linear(gate, noise, up, noise)
    model.layers[0].mlp.gate_up_proj.output_sizes = [len(gate) + 5, len(up) + 5]
    model.layers[0].mlp.down_proj = linear(pad(down, (0, 5), value=3.0))
    model.layers[0].mlp.down_proj.input_size = down.shape[1] + 5
    assert max(dict(linear_errors(model, weights)).values()) < 1e-6
    model.layers[0].mlp.gate_up_proj.weight[: len(gate)].mul_(1.2)
    assert dict(linear_errors(model, weights))["layers.0.mlp.gate_up_proj"] > 0.1
