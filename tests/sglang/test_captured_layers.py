"""What the drafter is given are the outputs of the very layers its config names (report 10).

The target here is built so that layer i puts out i + 2 in every coordinate: the embedding is 1 everywhere, attention is
silent, and each MLP adds exactly 1.
"""

from __future__ import annotations

import shutil
from unittest import mock

import pytest
import torch
from safetensors.torch import load_file, save_file

from ..support.engine import Request
from ..support.models import cached, dense_qwen3, dspine_drafter, hybrid_qwen35
from ..support.pairs import EXTRA_BUFFER, Pair
from ..support.prompts import random_prompts

pytestmark = pytest.mark.report(10)
SILENT = ("self_attn.o_proj", "linear_attn.out_proj")


def counting(base: str, norm: float) -> str:
    """`base` rebuilt to count its layers; `norm` is the weight under which its RMSNorm maps ones to ones."""

    def build(path) -> None:
        shutil.copytree(base, path, dirs_exist_ok=True)
        weights = load_file(path / "model.safetensors")
        one = torch.nn.functional.silu(torch.tensor(1.0))
        for name, weight in weights.items():
            if name.endswith(("input_layernorm.weight", "post_attention_layernorm.weight")):
                weight.fill_(norm)
            elif "embed_tokens" in name:
                weight.fill_(1.0)
            elif any(part in name for part in SILENT):
                weight.zero_()
            elif name.endswith(("gate_proj.weight", "up_proj.weight")):
                weight.zero_()
                weight[0] = 1 / weight.shape[1]  # the first inner unit sees 1, the others 0
            elif name.endswith("down_proj.weight"):
                weight.zero_()
                weight[:, 0] = 1 / one
        save_file(weights, path / "model.safetensors", metadata={"format": "pt"})

    return cached("counting", build, base=base, norm=norm)


@pytest.mark.parametrize("ids", [(0, 2), (1, 2)], ids=str)
@pytest.mark.parametrize("kind", ["dense", "hybrid"])
def test_captured_values_are_those_of_the_configs_layers(engines, kind, ids):
    base, norm, server = {
        "dense": (dense_qwen3(), 1.0, {}),
        "hybrid": (hybrid_qwen35(), 0.0, EXTRA_BUFFER),  # it scales by 1 + weight
    }[kind]
    pair = Pair(counting(base, norm), dspine_drafter(target_layer_ids=ids))
    engine = pair.served(engines, **server)
    worker, given = engine.draft_worker, {"prefill": [], "verify": []}
    right = worker._append_target_hidden_to_draft_kv_by_loc

    def append(target_hidden, commit_lens=None, **rest):
        given["prefill" if commit_lens is None else "verify"].append(target_hidden.clone())
        right(target_hidden=target_hidden, commit_lens=commit_lens, **rest)

    with mock.patch.object(worker, "_append_target_hidden_to_draft_kv_by_loc", append):
        engine.generate([Request(random_prompts((9,))[0], {"max_new_tokens": 6, "ignore_eos": True})])
    for stage, seen in given.items():
        assert seen, f"nothing was captured in {stage}"
        for hidden in seen:
            values = hidden.view(len(hidden), len(ids), -1)
            expected = torch.tensor(ids)[None, :, None] + 2.0
            torch.testing.assert_close(values, expected.expand_as(values), rtol=1e-4, atol=0, msg=stage)
