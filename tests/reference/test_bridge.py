"""The injection against its equations, written out one row at a time."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sglang_dspine.reference import FLOAT64, Bridge, bridge_write, code_features, features
from sglang_dspine.reference.bridge import inject

from .cases import CASES, drafter_of, few, random_inputs


def random_bridge(seed, hidden=12, rank=6, message=5, vocabulary=9, layers=2, scale=1.0):
    generator = torch.Generator().manual_seed(seed)

    def of(*shape):
        return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)

    return Bridge(
        readouts=tuple(of(rank, hidden) for _ in range(layers)),
        writes=tuple(of(hidden, message) for _ in range(layers)),
        message=of(message, rank),
        receiver_gate=of(message, rank),
        predecessor_gate=of(message, rank),
        bias=of(message),
        codes=torch.nn.functional.normalize(of(vocabulary, rank), dim=-1),
    )


def by_definition(h, anchor, layer, bridge):
    """One block [B, H], row by row, vectors only."""
    rank = bridge.codes.shape[1]
    f = [math.sqrt(rank) * (v := bridge.readouts[layer] @ row) / v.norm() for row in h]
    written = [h[0]]
    for i in range(1, len(h)):
        p = math.sqrt(rank) * bridge.codes[anchor] if i == 1 else f[i - 1]
        g = torch.sigmoid(bridge.receiver_gate @ f[i] + bridge.predecessor_gate @ p + bridge.bias)
        d = bridge.writes[layer] @ (g * (bridge.message @ p))
        written.append(h[i] + h[i].norm() / math.sqrt(len(h[i])) * d)
    return torch.stack(written)


@few
@given(seed=st.integers(0, 999), rows=st.integers(2, 9), layer=st.integers(0, 1))
def test_injection_follows_its_equations(seed, rows, layer):
    bridge = random_bridge(seed)
    h = torch.randn(3, rows, 12, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64)
    anchor = torch.tensor([0, 8, 3])
    found = inject(h, anchor, layer, bridge, FLOAT64)
    expected = torch.stack([by_definition(h[n], anchor[n], layer, bridge) for n in range(3)])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_the_anchor_row_is_never_written(case):
    drafter = drafter_of(case, torch.float32)
    taps, anchor = random_inputs(case, 2, blocks=3, span=9, dtype=torch.float32)
    proposal = drafter.propose(taps, anchor)
    last = proposal.pre_injection[:, 0]
    norm = drafter.arithmetic.rms_norm(last, drafter.weights["norm.weight"], drafter.config.rms_norm_eps)
    assert torch.equal(proposal.block_hidden[:, 0], norm)
    h = proposal.pre_injection
    for layer in range(drafter.config.num_layers):
        written = inject(h, anchor, layer, drafter.bridge)
        assert torch.equal(written[:, 0], h[:, 0])
        assert (written[:, 1:] != h[:, 1:]).any(-1).all()


def test_the_row_after_the_anchor_hears_its_code_and_not_its_state():
    bridge = random_bridge(7)
    h = torch.randn(1, 5, 12, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    before = inject(h, torch.tensor([4]), 0, bridge)
    changed = h.clone()
    changed[:, 0] += 1
    assert torch.equal(inject(changed, torch.tensor([4]), 0, bridge)[:, 1:], before[:, 1:])
    moved = (inject(h, torch.tensor([5]), 0, bridge) != before).any(-1)[0]
    assert moved.tolist() == [False, True, False, False, False]


def test_a_write_reaches_one_row_further_and_no_more():
    bridge = random_bridge(9)
    h = torch.randn(1, 6, 12, generator=torch.Generator().manual_seed(10), dtype=torch.float64)
    before = inject(h, torch.tensor([0]), 1, bridge)
    for row in range(1, 6):
        changed = h.clone()
        changed[:, row] += 1
        moved = (inject(changed, torch.tensor([0]), 1, bridge) != before).any(-1)[0]
        assert moved.tolist() == [q in (row, row + 1) for q in range(6)]


@few
@given(seed=st.integers(0, 999), factor=st.sampled_from([1e-6, 0.1, 3.0, 1e6]))
def test_features_forget_the_scale_and_writes_keep_it(seed, factor):
    bridge = random_bridge(seed)
    h = torch.randn(2, 4, 12, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    f = features(h, bridge.readouts[0], FLOAT64)
    torch.testing.assert_close(f.square().sum(-1), torch.full((2, 4), 6.0, dtype=torch.float64))
    torch.testing.assert_close(features(factor * h, bridge.readouts[0], FLOAT64), f)
    p = code_features(torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7]]), bridge.codes)
    written = bridge_write(h, f, p, bridge.writes[0], bridge, FLOAT64)
    scaled = bridge_write(factor * h, f, p, bridge.writes[0], bridge, FLOAT64)
    torch.testing.assert_close(scaled, factor * written)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_zero_states_stay_finite_and_zero(dtype):
    bridge = random_bridge(11)
    bridge = Bridge(
        **{
            name: tuple(t.to(dtype) for t in v) if isinstance(v, tuple) else v.to(dtype)
            for name, v in vars(bridge).items()
        }
    )
    h = torch.zeros(1, 4, 12, dtype=dtype)
    assert torch.equal(features(h, bridge.readouts[0]), torch.zeros(1, 4, 6, dtype=dtype))
    assert torch.equal(inject(h, torch.tensor([1]), 0, bridge), h)
    h[:, 2] = 1
    written = inject(h, torch.tensor([1]), 0, bridge)
    assert written.isfinite().all()
    assert (written[:, 2] == 1).all()  # its predecessor is a zero state, which has nothing to say
