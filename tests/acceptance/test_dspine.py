"""DSpine's proposals here are the reference's, whatever is cut, batched or left out."""

from dataclasses import replace

import pytest
import torch

from sglang_dspine.acceptance import context
from sglang_dspine.acceptance.arm import parse_arm
from sglang_dspine.acceptance.capture import Ends, Target
from sglang_dspine.acceptance.dspine import DSpine
from sglang_dspine.agreement.captures import Captures, Text
from sglang_dspine.agreement.draft import Anchor, draft
from sglang_dspine.checkpoint.convert import Format, convert, plan_conversion
from sglang_dspine.checkpoint.examine import examine_headers
from sglang_dspine.checkpoint.lazy import LazyWeights
from sglang_dspine.checkpoint.read import load_checkpoint
from sglang_dspine.errors import DSpineError
from sglang_dspine.reference.drafter import Drafter
from tests.support.models import dense_qwen3, dspine_drafter

AT = [3, 9, 17, 40, 41, 66]
WINDOW = {"sliding_window": 12, "layer_types": ("sliding_attention",) * 2}


@pytest.fixture(scope="module")
def captured():
    """(ends, taps [S, T·H], tokens [S]) of the target on its own text."""
    target = Target(dense_qwen3(lively=None), "float32", "cpu")
    text = target.continued([65, 70, 9, 200, 31], 70)
    found = target.capture(text, (0, 2))
    return target.ends, found.taps.flatten(1), found.tokens


def reference(folder, ends: Ends, taps, tokens, **changes):
    """Proposals at AT, one anchor at a time, over the whole context."""
    config, weights = load_checkpoint(folder, torch.float32)
    drafter = Drafter(replace(config, **changes), weights, ends.embed, ends.head)
    with torch.no_grad():
        return torch.cat([drafter.propose(taps[None, :at], tokens[at : at + 1]).tokens for at in AT])


@pytest.mark.parametrize("trained", [{}, WINDOW], ids=["full attention", "window"])
def test_proposals_are_the_references(captured, trained):
    folder = dspine_drafter(**trained)
    ends, taps, tokens = captured
    drafter = DSpine(parse_arm(f"a {folder}"), ends, torch.float32, "cpu")
    assert torch.equal(drafter.propose(taps, tokens, AT, 8), reference(folder, ends, taps, tokens))


def test_the_first_rows_are_those_of_a_narrower_block(captured):
    drafter = DSpine(parse_arm(f"a {dspine_drafter()}"), captured[0], torch.float32, "cpu")
    whole, narrow = (drafter.propose(*captured[1:], AT, rows) for rows in (8, 4))
    assert torch.equal(whole[:, :3], narrow)


def test_a_window_is_what_the_reference_makes_of_it(captured):
    folder = dspine_drafter()
    drafter = DSpine(parse_arm(f"a {folder} window=12"), captured[0], torch.float32, "cpu")
    narrowed = drafter.propose(*captured[1:], AT, 8)
    assert torch.equal(narrowed, reference(folder, *captured, **WINDOW))
    assert not torch.equal(narrowed, reference(folder, *captured))


def test_small_batches_change_nothing(captured, monkeypatch):
    drafter = DSpine(parse_arm(f"a {dspine_drafter()}"), captured[0], torch.float32, "cpu")
    together = drafter.propose(*captured[1:], AT, 8)
    monkeypatch.setattr(context, "CPU_BYTES", 1)
    assert torch.equal(together, drafter.propose(*captured[1:], AT, 8))


@pytest.mark.parametrize("bridge", ["zeroed", "last"])
def test_a_bridge_variant_is_the_reference_with_those_writes_zero(captured, bridge, tmp_path):
    ends, taps, tokens = captured
    folder = dspine_drafter()
    found = DSpine(parse_arm(f"a {folder} bridge={bridge}"), ends, torch.float32, "cpu").propose(taps, tokens, AT, 8)
    config, weights = load_checkpoint(folder, torch.float32)
    for layer in range(2 if bridge == "zeroed" else 1):
        weights[f"injection.writes.{layer}.weight"] = torch.zeros_like(weights[f"injection.writes.{layer}.weight"])
    drafter = Drafter(config, weights, ends.embed, ends.head)
    true = torch.cat([drafter.propose(taps[None, :at], tokens[at : at + 1]).tokens for at in AT])
    assert torch.equal(found, true) and not torch.equal(found, reference(folder, ends, taps, tokens))


def test_fp8_drafts_what_a_converted_checkpoint_drafts(captured, tmp_path):
    ends, taps, tokens = captured
    folder = dspine_drafter()
    found = DSpine(parse_arm(f"a {folder} fp8"), ends, torch.float32, "cpu").propose(taps, tokens, AT, 8)
    convert(plan_conversion(examine_headers(folder).folder, tmp_path / "fp8", Format.FP8))
    seen = examine_headers(tmp_path / "fp8")
    texts = (Text(taps, tokens, 5),)
    captures = Captures(texts, ends.embed, ends.head, ends.embed[seen.config.mask_token_id], "test")
    other = draft(seen.config, LazyWeights(seen, torch.float32), captures, [Anchor(0, at) for at in AT])
    # the converted weights are rounded once more, to BF16: near ties may turn
    assert (found == other.tokens).float().mean() > 0.9


def test_settings_beyond_what_was_trained_are_refused(captured):
    with pytest.raises(DSpineError, match=r"width 9; expected 2\.\.8"):
        DSpine(parse_arm(f"a {dspine_drafter()} width=9"), captured[0], torch.float32, "cpu")
    with pytest.raises(DSpineError, match="window 13 is beyond the trained 12"):
        DSpine(parse_arm(f"a {dspine_drafter(**WINDOW)} window=13"), captured[0], torch.float32, "cpu")
