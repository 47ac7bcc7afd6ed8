"""An FP8 draft in SGLang: weights, context K and V, and the same bits from an FP8 checkpoint as from a BF16 one.

The CPU stand-in computes the FP8 products; everything around them is SGLang's and ours.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sglang_dspine.checkpoint import load_checkpoint
from sglang_dspine.checkpoint.convert import Format, convert, plan_conversion
from sglang_dspine.checkpoint.expected import is_fp8_linear
from sglang_dspine.checkpoint.fp8 import quantise_rows
from sglang_dspine.checkpoint.values import dequantise
from sglang_dspine.commit.context_kv import ContextKV
from sglang_dspine.reference.arithmetic import DEFAULT
from sglang_dspine.reference.backbone import keys_and_values, project_context

from ..support import pairs
from ..support.engine import Request
from ..support.prompts import random_prompts

FP8 = {"dtype": "bfloat16", "speculative_draft_model_quantization": "fp8"}
ROWS = 24


@pytest.fixture(scope="module")
def pair():
    return pairs.full_rank()


@pytest.fixture(scope="module")
def engine(engines, pair):
    return pair.served(engines, **FP8)


def taps_of(worker, rows: int, seed: int = 3) -> torch.Tensor:
    width = worker.draft_model.fc.input_size
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)


def context_after(worker, first_slot: int, taps, commit_lens=None):
    """K and V of every layer at the slots that `taps` were committed to."""
    rows = len(taps)
    slots = torch.arange(first_slot, first_slot + rows)
    pool = worker.draft_model_runner.token_to_kv_pool
    more = {} if commit_lens is None else {"cache_loc_2d": slots.view(len(commit_lens), -1), "commit_lens": commit_lens}
    with torch.inference_mode():
        for layer in range(len(worker.draft_model.layers)):
            pool.get_key_buffer(layer)[slots], pool.get_value_buffer(layer)[slots] = 7, 7
        worker._append_target_hidden_to_draft_kv_by_loc(
            target_hidden=taps, cache_loc=slots, positions=torch.arange(rows) + 5, **more
        )
        layers = range(len(worker.draft_model.layers))
        return [(pool.get_key_buffer(i)[slots].clone(), pool.get_value_buffer(i)[slots].clone()) for i in layers]


def test_every_linear_and_fc_hold_the_checkpoints_rows_as_sglang_quantises_them(engine, pair):
    model, (_, weights) = engine.draft_worker.draft_model, load_checkpoint(pair.draft)
    expected = {"fc": [weights["fc.weight"]]}
    for i in range(model.dspine.num_layers):
        for name, parts in {
            "self_attn.qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            "self_attn.o_proj": ("self_attn.o_proj",),
            "mlp.gate_up_proj": ("mlp.gate_proj", "mlp.up_proj"),
            "mlp.down_proj": ("mlp.down_proj",),
        }.items():
            expected[f"layers.{i}.{name}"] = [weights[f"layers.{i}.{part}.weight"] for part in parts]
    for name, parts in expected.items():
        values, scale = quantise_rows(torch.cat(parts))
        module = model.get_submodule(name)
        assert torch.equal(module.weight.t().view(torch.uint8), values.view(torch.uint8)), name
        assert torch.equal(module.weight_scale.reshape(-1, 1), scale), name


def test_context_goes_through_one_product_for_all_layers(engine):
    worker = engine.draft_worker
    assert isinstance(worker._fused_kv_helper, ContextKV) and worker._use_fused_kv_materialize


@pytest.mark.parametrize("commit", [None, [8, 3, 0]], ids=["prefill", "commits"])
def test_context_equals_sglangs_layer_by_layer_path(engine, monkeypatch, commit):
    worker = engine.draft_worker
    taps = taps_of(worker, ROWS)
    lens = None if commit is None else torch.tensor(commit, dtype=torch.int32)
    ours = context_after(worker, 100, taps, lens)
    assert worker._use_fused_kv_materialize  # no exception sent it to the other path
    monkeypatch.setattr(worker, "_use_fused_kv_materialize", False)
    theirs = context_after(worker, 100, taps, lens)
    for layer, (found, expected) in enumerate(zip(ours, theirs, strict=True)):
        for a, b in zip(found, expected, strict=True):
            # another shape of the same float32 product: at most a BF16 rounding apart
            assert torch.allclose(a.float(), b.float(), rtol=2**-7, atol=1e-3), layer
    live = ROWS if commit is None else sum(commit)
    written = (ours[0][1] != 7).any(-1).any(-1)
    assert int(written.sum()) == live
    if commit is not None:
        assert written.view(len(commit), -1).tolist() == [[i < n for i in range(ROWS // len(commit))] for n in commit]


def test_context_stays_close_to_the_bf16_path(engine, pair):
    """Against the reference in float32, on the same FP8 weights (3.8 % seen) and on the BF16 ones (5.5 % seen)."""
    worker, (config, weights) = engine.draft_worker, load_checkpoint(pair.draft, torch.float32)
    taps, positions = taps_of(worker, ROWS), torch.arange(ROWS)[None] + 5
    found = context_after(worker, 100, taps)
    quantised = {n: dequantise(*quantise_rows(w)).float() if is_fp8_linear(n) else w for n, w in weights.items()}
    for given, bound in ((quantised, 0.05), (weights, 0.07)):
        context = project_context(taps[None].float(), given, config)
        for i, pair_of_layer in enumerate(found):
            layer = {n.removeprefix(f"layers.{i}."): w for n, w in given.items() if n.startswith(f"layers.{i}.")}
            expected = keys_and_values(context, positions, layer, config, DEFAULT)
            for served, reference in zip(pair_of_layer, expected, strict=True):
                error = ((served.float() - reference[0]).norm() / reference.norm()).item()
                assert 0 < error < bound, (i, error)


def test_an_fp8_checkpoint_is_served_like_the_bf16_one_bit_for_bit(engines, pair, tmp_path):
    """Proposals, table rows and accepted lengths; fc included."""
    prompts = random_prompts((5, 24, 40))
    requests = [Request(ids, {"max_new_tokens": 24, "ignore_eos": True}) for ids in prompts]

    def served(draft):
        engine = pairs.Pair(pair.target, str(draft)).served(engines, **FP8)
        outputs = engine.generate(requests)
        proposer = engine.draft_worker.draft_model.proposer
        last = (proposer.tokens.clone(), proposer.candidates.clone(), proposer.scores.clone())
        return [out.output_ids for out in outputs], [out.accept_lengths for out in outputs], last

    # the codes of a float32 checkpoint reach SGLang unrounded; what is compared starts from BF16, as drafters ship
    convert(plan_conversion(Path(pair.draft), tmp_path / "bf16", Format.BF16))
    convert(plan_conversion(tmp_path / "bf16", tmp_path / "fp8", Format.FP8))
    bf16, fp8 = served(tmp_path / "bf16"), served(tmp_path / "fp8")
    assert bf16[0] == fp8[0] and bf16[1] == fp8[1]
    assert all(torch.equal(a, b) for a, b in zip(bf16[2], fp8[2], strict=True))
