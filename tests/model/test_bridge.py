"""The serving form of the bridge against the reference's, and the loading of its tensors."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_dspine.errors import CheckpointError
from sglang_dspine.kernels.bridge.naive import row_scale
from sglang_dspine.model.bridge import Bridge
from sglang_dspine.model.weights import load_bridge
from sglang_dspine.reference import FLOAT64
from sglang_dspine.reference import Bridge as ReferenceBridge
from sglang_dspine.reference.bridge import features, inject

from ..support.checkpoints import TINY, random_tensors

few = settings(max_examples=20, deadline=None, derandomize=True)
SHAPE = (TINY.num_layers, TINY.hidden_size, TINY.transfer_rank, TINY.message_size, TINY.vocab_size)


def made(seed: int = 0, dtype: torch.dtype = torch.float32) -> tuple[Bridge, dict[str, torch.Tensor]]:
    weights = random_tensors(TINY, seed=seed, dtype=dtype)
    bridge = Bridge(*SHAPE).to(dtype)
    list(load_bridge(bridge, weights.items(), TINY))
    return bridge, weights


def rows(seed: int, w: int = 16, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    return (
        torch.randn(4, w, TINY.hidden_size, generator=random).to(dtype),
        torch.randint(TINY.vocab_size, (4,), generator=random),
    )


def reference(weights: dict[str, torch.Tensor], dtype: torch.dtype = torch.float32) -> ReferenceBridge:
    return ReferenceBridge.from_weights({k: v.to(dtype) for k, v in weights.items()}, TINY.num_layers)


def after_first_layer(bridge: Bridge, h: torch.Tensor, anchor: torch.Tensor) -> torch.Tensor:
    return bridge.inject(0, h, None, anchor).after


@few
@given(seed=st.integers(0, 99), layer=st.integers(0, TINY.num_layers - 1), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_injection_is_the_references(seed, layer, scale):
    bridge, weights = made(seed)
    h, anchor = rows(seed)
    h = h * scale
    _, after, receive = bridge.inject(layer, h, None, anchor)
    expected = inject(h, anchor, layer, reference(weights))
    torch.testing.assert_close(after, expected, rtol=1e-4, atol=1e-5 * scale)
    f = features(h[:, 1:], weights[f"injection.readouts.{layer}.weight"])
    gate = f @ weights["injection.receiver_gate.weight"].T + weights["injection.bias"]
    torch.testing.assert_close(receive, gate, rtol=1e-4, atol=1e-4)


def test_bfloat16_stays_within_its_rounding_of_the_exact_injection():
    bridge, weights = made(1, torch.bfloat16)
    h, anchor = rows(1, dtype=torch.bfloat16)
    exact = inject(h.double(), anchor, 0, reference(weights, torch.float64), FLOAT64)
    error = (after_first_layer(bridge, h, anchor).double() - exact).norm(dim=-1) / exact.norm(dim=-1)
    assert error.max() < 2**-6


@pytest.mark.parametrize("w", [2, 3, 16])
def test_the_anchor_row_is_never_written_and_later_rows_change_nothing(w):
    bridge, _ = made()
    h, anchor = rows(0)
    whole, part = after_first_layer(bridge, h, anchor), after_first_layer(bridge, h[:, :w], anchor)
    assert torch.equal(part[:, 0], h[:, 0])
    torch.testing.assert_close(part, whole[:, :w], rtol=1e-5, atol=1e-6)


def test_row_1_hears_the_anchors_code_and_not_its_state():
    bridge, _ = made()
    h, anchor = rows(0)
    other = h.clone()
    other[:, 0] = torch.randn_like(other[:, 0])
    assert torch.equal(after_first_layer(bridge, h, anchor)[:, 1], after_first_layer(bridge, other, anchor)[:, 1])
    assert not torch.equal(
        after_first_layer(bridge, h, anchor)[:, 1], after_first_layer(bridge, h, (anchor + 1) % TINY.vocab_size)[:, 1]
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_zero_state_stays_finite_and_zero(dtype):
    bridge, _ = made(0, dtype)
    h, anchor = rows(0, dtype=dtype)
    h[:, 3] = 0
    _, after, receive = bridge.inject(0, h, None, anchor)
    assert after.isfinite().all() and receive.isfinite().all()
    assert torch.equal(after[:, 3], torch.zeros_like(after[:, 3]))


def test_the_scale_of_a_row_is_its_root_mean_square():
    h, _ = rows(2)
    torch.testing.assert_close(row_scale(h)[..., 0], h.square().mean(-1).sqrt())


def test_tensors_that_are_not_the_bridges_pass_on_in_order():
    weights = random_tensors(TINY, dtype=torch.float32)
    passed = [name for name, _ in load_bridge(Bridge(*SHAPE), weights.items(), TINY)]
    assert passed == [n for n in weights if not n.startswith("injection.") and not n.startswith("transfer_")]


@pytest.mark.parametrize(
    "name", ["injection.bias", "injection.readouts.1.weight", "injection.message.weight", "transfer_codes"]
)
def test_a_missing_tensor_is_named(name):
    weights = random_tensors(TINY, dtype=torch.float32)
    del weights[name]
    with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
        list(load_bridge(Bridge(*SHAPE), weights.items(), TINY))


@pytest.mark.parametrize("name", ["injection.writes.0.weight", "injection.receiver_gate.weight"])
def test_a_tensor_of_another_shape_is_named_with_both_shapes(name):
    weights = random_tensors(TINY, dtype=torch.float32)
    weights[name] = weights[name][:-1]
    with pytest.raises(CheckpointError, match=rf"{name}.*{weights[name].shape[0] + 1}"):
        list(load_bridge(Bridge(*SHAPE), weights.items(), TINY))


@pytest.mark.report(37)
@pytest.mark.parametrize("rows_of_codes", [TINY.vocab_size - 1, TINY.vocab_size + 61])
def test_codes_of_another_vocabulary_are_refused(rows_of_codes):
    weights = random_tensors(TINY, dtype=torch.float32)
    weights["transfer_codes"] = torch.zeros(rows_of_codes, TINY.transfer_rank)
    with pytest.raises(CheckpointError, match="another vocabulary"):
        list(load_bridge(Bridge(*SHAPE), weights.items(), TINY))


def test_codes_are_projected_alike_in_chunks():
    whole, weights = made(4)
    chunked = Bridge(*SHAPE)
    chunked.load_state_dict(whole.state_dict())
    chunked.project_codes(weights["transfer_codes"], chunk=10)
    torch.testing.assert_close(chunked.token_gate, whole.token_gate)
    torch.testing.assert_close(chunked.token_message, whole.token_message)
