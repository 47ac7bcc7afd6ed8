"""What a row may depend on, and that the bridge adds nothing when it writes nothing."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sglang_dspine.reference import FIXED_FLOAT64, FLOAT64
from sglang_dspine.reference.backbone import attention, draft_layer, project_context

from .cases import CASES, config_of, drafter_of, few, random_inputs, silent, tensors

DTYPES = [torch.float64, torch.float32, torch.bfloat16]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_zero_writes_equal_the_plain_causal_backbone_bit_for_bit(case, dtype):
    drafter = drafter_of(case, dtype, **silent(case))
    taps, anchor = random_inputs(case, 1, blocks=2, span=21, dtype=dtype)
    found = drafter.propose(taps, anchor)

    config, lengths = drafter.config, torch.tensor([21, 21])
    context = project_context(taps, drafter.weights, config)
    h = drafter.embed[drafter.block_tokens(anchor, config.block_size)]
    for layer in range(config.num_layers):
        h = draft_layer(h, context, lengths, layer, drafter.weights, config)
    assert torch.equal(found.pre_injection, h)
    plain = drafter.arithmetic.rms_norm(h, drafter.weights["norm.weight"], config.rms_norm_eps)
    assert torch.equal(found.block_hidden, plain)
    # Nothing written: every predecessor leaves the same scores.
    assert torch.equal(found.scores, found.scores[:, :, :1].expand_as(found.scores))


def same_up_to(first, second, row):
    """States of two drafts agree bit for bit in rows 0..row."""
    return all(
        torch.equal(getattr(first, name)[..., : row + 1, :], getattr(second, name)[..., : row + 1, :])
        for name in ("block_hidden", "pre_injection", "layer_features")
    )


def run(case, seed, block_rows, arithmetic=FLOAT64):
    drafter = drafter_of(case, torch.float64, arithmetic)
    taps, anchor = random_inputs(case, seed, len(block_rows), span=17)
    context = project_context(taps, drafter.weights, drafter.config, arithmetic)
    return drafter.run(block_rows, context, anchor, torch.full((len(block_rows),), 17))


def random_rows(case, seed, blocks=1):
    config = config_of(case)
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(blocks, config.block_size, config.hidden_size, generator=generator, dtype=torch.float64)


@few
@given(case=st.sampled_from(CASES), seed=st.integers(0, 999), row=st.integers(0, 14))
def test_future_rows_cannot_change_a_row(case, seed, row):
    rows = random_rows(case, seed)
    changed = rows.clone()
    changed[:, row + 1 :] = 10 * random_rows(case, seed + 1)[:, row + 1 :]
    first, second = run(case, seed, rows), run(case, seed, changed)
    assert same_up_to(first, second, row)
    assert not same_up_to(first, second, row + 1)


@few
@given(case=st.sampled_from(CASES), seed=st.integers(0, 999), row=st.integers(0, 14))
def test_every_earlier_row_is_seen(case, seed, row):
    rows = random_rows(case, seed)
    changed = rows.clone()
    changed[:, row] += 1
    first, second = run(case, seed, rows).block_hidden, run(case, seed, changed).block_hidden
    assert (first != second).any(-1)[0].tolist() == [q >= row for q in range(rows.shape[1])]


@few
@given(case=st.sampled_from(CASES), seed=st.integers(0, 999), low_rank=st.booleans())
def test_other_blocks_cannot_change_a_block(case, seed, low_rank):
    """Alone, or padded beside a longer block whose context is filled with NaN where it does not count."""
    drafter = drafter_of(case, torch.float64, FIXED_FLOAT64, low_rank)
    taps, anchor = random_inputs(case, seed, blocks=3, span=20)
    lengths = torch.tensor([20, 1 + seed % 19, 7])
    for block in range(3):
        taps[block, lengths[block] :] = torch.nan
    uniforms = torch.rand(3, 15, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    settings = {"temperature": torch.tensor([0.0, 0.7, 1.3])}
    together = drafter.propose(taps, anchor, lengths=lengths, uniforms=uniforms, **settings)
    for block in range(3):
        own = slice(block, block + 1)
        alone = drafter.propose(
            taps[own, : lengths[block]],
            anchor[own],
            uniforms=uniforms[own],
            temperature=settings["temperature"][own],
        )
        for field in dataclasses.fields(alone):
            axis = 1 if field.name == "layer_features" else 0
            mine = getattr(together, field.name).narrow(axis, block, 1)
            assert torch.equal(mine, getattr(alone, field.name)), field.name


@few
@given(case=st.sampled_from(CASES), seed=st.integers(0, 999), rows=st.integers(2, 16), low_rank=st.booleans())
def test_the_first_rows_alone_give_the_first_rows(case, seed, rows, low_rank):
    """Exact, since float64 in fixed order takes each sum alike for any number of rows."""
    drafter = drafter_of(case, torch.float64, FIXED_FLOAT64, low_rank)
    taps, anchor = random_inputs(case, seed, blocks=2, span=seed % 30)
    uniforms = torch.rand(2, 15, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    whole = drafter.propose(taps, anchor, uniforms=uniforms, temperature=0.8)
    trimmed = drafter.propose(taps, anchor, uniforms=uniforms[:, : rows - 1], temperature=0.8, rows=rows)
    for field in dataclasses.fields(trimmed):
        axis = 2 if field.name == "layer_features" else 1
        found = getattr(trimmed, field.name)
        assert torch.equal(found, getattr(whole, field.name).narrow(axis, 0, found.shape[axis])), field.name


@pytest.mark.parametrize("window", [1, 2, 12, 40, None])
def test_a_window_hides_old_context_and_never_a_row_of_the_block(window):
    """Row q, at S + q, sees context from S + q - (window - 1) on; one position is changed at a time."""
    config, span = config_of("window"), 20
    layer = {
        name.removeprefix("layers.0."): weight.double()
        for name, weight in tensors("window", "model").items()
        if name.startswith("layers.0.")
    }
    rows = random_rows("window", 3)
    context = torch.randn(1, span, config.hidden_size, generator=torch.Generator().manual_seed(4)).double()
    lengths = torch.tensor([span])

    def attend(rows, context):
        return attention(rows, context, lengths, layer, config, window, FLOAT64)

    before = attend(rows, context)
    for position in range(span):
        changed = context.clone()
        changed[:, position] += 1
        moved = (attend(rows, changed) != before).any(-1)[0]
        assert moved.tolist() == [window is None or position > span + q - window for q in range(16)]
    changed = rows.clone()
    changed[:, 0] += 1
    assert (attend(changed, context) != before).any(-1).all()


@pytest.mark.parametrize("case", CASES)
def test_a_block_without_context_is_drafted(case):
    drafter = drafter_of(case, torch.float64, FLOAT64)
    taps, anchor = random_inputs(case, 5, blocks=2, span=0)
    proposal = drafter.propose(taps, anchor)
    assert proposal.block_hidden.isfinite().all() and proposal.scores.isfinite().all()
