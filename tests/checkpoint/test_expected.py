"""The table of tensors is that of the public training code."""

from dataclasses import replace
from pathlib import Path

import pytest

from sglang_dspine.checkpoint import Layout, expected_shapes
from sglang_dspine.checkpoint.expected import is_fp8_linear, stored_tensors
from sglang_dspine.config import load_config
from sglang_dspine.headers import read_header
from tests.support.checkpoints import TINY

VECTORS = Path(__file__).parents[1] / "data" / "vectors"


@pytest.mark.parametrize("case", ["full", "window"])
def test_the_table_is_what_the_training_code_saved(case):
    header = read_header(VECTORS / case / "model.safetensors")
    table = stored_tensors(load_config(VECTORS / case), Layout.SPECFORGE)
    assert {name: stored.shape for name, stored in header.items()} == {
        name: shape for name, (shape, _) in table.items()
    }


def test_fp8_takes_seven_linears_a_layer_and_fc_and_leaves_the_bridge():
    linears = [name for name in expected_shapes(TINY) if is_fp8_linear(name)]
    assert len(linears) == 7 * TINY.num_layers + 1 and "fc.weight" in linears
    assert not any(name.startswith(("injection", "transfer")) or "norm" in name for name in linears)


def test_a_27b_drafter_has_the_parameters_the_model_card_counts():
    config = replace(
        TINY, hidden_size=5120, num_layers=5, num_heads=32, num_kv_heads=8, head_dim=128,
        intermediate_size=17408, vocab_size=248320, target_layer_ids=(1, 2, 3, 4, 5),
        transfer_rank=1024, message_size=512,
    )  # fmt: skip
    sizes = {name: shape[0] * (shape[1] if len(shape) > 1 else 1) for name, shape in expected_shapes(config).items()}
    fp8 = sum(size for name, size in sizes.items() if is_fp8_linear(name))
    assert fp8 / 1e9 == pytest.approx(1.730, abs=1e-3)
    assert (fp8 + 2 * (sum(sizes.values()) - fp8)) / 1e9 == pytest.approx(2.32, abs=5e-3)
    assert 2 * sum(sizes.values()) / 1e9 == pytest.approx(4.05, abs=5e-3)
