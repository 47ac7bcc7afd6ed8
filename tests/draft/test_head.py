"""Candidates come from the target's own head: real tokens only, best first; a head without readable rows is refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

# Imported before `get_parallel` is replaced: a module that SGLang first imports meanwhile would keep the replacement.
from sglang.srt import runtime_context
from sglang.srt.distributed import communication_op  # noqa: F401
from sglang.srt.layers import logits_processor  # noqa: F401
from sglang.srt.speculative import dflash_utils  # noqa: F401

from sglang_dspine.draft.head import TargetHead
from sglang_dspine.errors import DSpineError
from sglang_dspine.reference import top_candidates

from ..kernels.head_rows.quantise import fp8_head, nvfp4_head

VOCAB, PADDED, HIDDEN = 67, 128, 32


@pytest.fixture(autouse=True)
def one_rank(monkeypatch):
    monkeypatch.setattr(runtime_context, "get_parallel", lambda: SimpleNamespace(tp_size=1))


def lm_head(weight: torch.Tensor, **attributes) -> SimpleNamespace:
    return SimpleNamespace(weight=weight, **attributes)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_candidates_are_the_references():
    weight, hidden = random(VOCAB, HIDDEN), random(40, HIDDEN, seed=1)
    found = TargetHead(lm_head(weight), VOCAB).top_k(hidden, 16)
    assert torch.equal(found, top_candidates(hidden, weight, 16, VOCAB))


@pytest.mark.report(4)
@pytest.mark.report(37)
def test_padded_rows_never_become_candidates_although_they_score_highest():
    weight, hidden = random(PADDED, HIDDEN), random(40, HIDDEN, seed=1).abs()
    weight[VOCAB:] = 100.0
    head = TargetHead(lm_head(weight), VOCAB)
    found = head.top_k(hidden, 16)
    assert found.max() < VOCAB
    assert torch.equal(found, top_candidates(hidden, weight[:VOCAB], 16, VOCAB))
    assert len(head.weight) == VOCAB


def test_rows_added_behind_the_vocabulary_are_no_candidates_either():
    """SGLang counts original and added rows of a shard; the drafter knows its own vocabulary."""
    weight = random(PADDED, HIDDEN)
    shard = SimpleNamespace(org_vocab_start_index=0, num_org_elements=PADDED)
    assert len(TargetHead(lm_head(weight, shard_indices=shard), VOCAB).weight) == VOCAB


@pytest.mark.parametrize(("start", "owned"), [(0, 64), (64, 3), (128, 0)])
def test_a_rank_owns_its_rows_of_the_vocabulary_and_no_added_ones(start, owned):
    shard = SimpleNamespace(org_vocab_start_index=start, num_org_elements=64)
    head = TargetHead(lm_head(random(64, HIDDEN), shard_indices=shard), VOCAB)
    assert (head.start, head.local_vocab, len(head.weight)) == (start, owned, owned)


def test_score_rows_are_the_heads_own():
    weight = random(VOCAB, HIDDEN).bfloat16()
    ids = torch.tensor([[3, 66], [0, 3]])
    assert torch.equal(TargetHead(lm_head(weight), VOCAB).rows(ids), weight[ids])


class PackedMethod:
    """A quantised head as SGLang presents one: packed rows, padding that scores highest, a product of its own."""

    def __init__(self, weight: torch.Tensor) -> None:
        self.rows = torch.cat([weight, torch.full((PADDED - VOCAB, HIDDEN), 100.0)])

    def apply(self, layer, x, bias):
        return x @ self.rows.T.to(x.dtype)


@pytest.fixture
def quantised():
    weight = random(VOCAB, HIDDEN)
    shard = SimpleNamespace(org_vocab_start_index=0, num_org_elements=VOCAB)
    packed = torch.zeros(PADDED, HIDDEN // 2, dtype=torch.uint8)
    return weight, lm_head(packed, quant_method=PackedMethod(weight), shard_indices=shard)


@pytest.mark.report(4)
def test_a_quantised_heads_padding_never_becomes_a_candidate(quantised):
    weight, packed = quantised
    hidden = random(40, HIDDEN, seed=1).abs()
    found = TargetHead(packed, VOCAB, HIDDEN, torch.float32).top_k(hidden, 16)
    assert found.max() < VOCAB
    assert torch.equal(found, top_candidates(hidden, weight, 16, VOCAB))


@pytest.mark.report(5)
def test_a_quantised_head_is_turned_into_rows_once_and_before_anything_is_served(quantised):
    weight, packed = quantised
    head = TargetHead(packed, VOCAB, HIDDEN, torch.float32)
    packed.quant_method.rows = None  # nothing is dequantised any more
    ids = torch.tensor([[3, 66], [0, 3]])
    assert torch.equal(head.rows(ids), weight[ids])


class RowsMethod:
    """A quantised head's product, by rows that are known."""

    def __init__(self, rows: torch.Tensor, factor: float = 1.0) -> None:
        self.rows, self.factor, self.calls = rows, factor, 0

    def apply(self, layer, x, bias):
        self.calls += x.shape[0]
        return self.factor * x @ self.rows.T.to(x.dtype)


def stored(form: str, factor: float = 1.0):
    """An lm_head as SGLang leaves it after loading, padded, and its rows in fp32."""
    shard = SimpleNamespace(org_vocab_start_index=0, num_org_elements=VOCAB)
    if form == "fp8":
        head, rows = fp8_head(PADDED, 64)
        layer = lm_head(head.weight.t(), weight_scale=head.scales[:, None], input_scale=1.0)
    else:
        head, rows = nvfp4_head(PADDED, 64)
        layer = lm_head(head.weight, weight_scale_interleaved=head.scales, weight_scale_2=head.scale)
    layer.shard_indices, layer.quant_method = shard, RowsMethod(rows, factor)
    return layer, rows


@pytest.mark.report(5)
@pytest.mark.parametrize("form", ["fp8", "nvfp4"])
@pytest.mark.parametrize("factor", [1.0, 0.96])
def test_rows_of_a_known_stored_form_are_dequantised_one_by_one_and_no_copy_is_kept(form, factor):
    layer, rows = stored(form, factor)
    head = TargetHead(layer, VOCAB, 64, torch.bfloat16)
    assert head.copy is None and layer.quant_method.calls <= 17
    ids = torch.tensor([[3, 66], [0, 3]])
    assert torch.equal(head.rows(ids), rows[ids].bfloat16())
    full = TargetHead(lm_head(torch.zeros(PADDED, 8), quant_method=RowsMethod(rows)), VOCAB, 64, torch.bfloat16)
    assert torch.equal(full.copy[ids], head.rows(ids)), "rows are those of the full copy"


@pytest.mark.parametrize("form", ["fp8", "nvfp4"])
def test_a_form_whose_rows_are_not_what_the_head_multiplies_by_is_copied_instead(form):
    layer, rows = stored(form)
    layer.quant_method.rows = rows.roll(1, 0)  # as a shuffled layout would show
    head = TargetHead(layer, VOCAB, 64, torch.bfloat16)
    assert torch.equal(head.rows(torch.tensor([5])), rows[[4]].bfloat16())
    assert head.copy is not None


@pytest.mark.report(4)
@pytest.mark.parametrize("weight", [None, torch.zeros(VOCAB, HIDDEN, dtype=torch.uint8)], ids=["none", "packed"])
def test_a_head_without_dense_rows_is_refused_at_start(weight):
    with pytest.raises(DSpineError, match="lm_head"):
        shard = SimpleNamespace(org_vocab_start_index=0, num_org_elements=VOCAB)
        TargetHead(lm_head(weight, shard_indices=shard), VOCAB)
