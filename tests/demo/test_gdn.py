"""The chunked rule used in training is the recurrence that the engine decodes with."""

import pytest
import torch
from transformers.models.qwen3_5.modeling_qwen3_5 import torch_recurrent_gated_delta_rule

from demo.gdn import chunk_gated_delta_rule


def inputs(length: int):
    random = torch.Generator().manual_seed(length)
    q, k, v = torch.randn(3, 2, length, 2, 16, generator=random)
    g, beta = -torch.rand(2, length, 2, generator=random), torch.rand(2, length, 2, generator=random)
    return (q, k, v), {"g": g, "beta": beta, "initial_state": torch.randn(2, 2, 16, 16, generator=random)}


@pytest.mark.parametrize("length", [1, 63, 64, 150])
def test_chunks_compute_the_recurrence(length):
    tensors, gates = inputs(length)
    out, state = chunk_gated_delta_rule(*tensors, **gates, output_final_state=True)
    true_out, true_state = torch_recurrent_gated_delta_rule(
        *tensors, **gates, output_final_state=True, use_qk_l2norm_in_kernel=True
    )
    torch.testing.assert_close(out, true_out, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(state, true_state, rtol=1e-5, atol=1e-5)


def test_a_later_token_changes_no_earlier_output():
    (q, k, v), gates = inputs(150)
    before, _ = chunk_gated_delta_rule(q, k, v, **gates)
    k[:, 100:], v[:, 100:] = 1.0, -3.0
    after, _ = chunk_gated_delta_rule(q, k, v, **gates)
    assert torch.equal(before[:, :100], after[:, :100]) and not torch.equal(before, after)
