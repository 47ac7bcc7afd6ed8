"""The attention benchmark's yardstick, on a CPU: exact rows, and the bytes of the floor."""

from __future__ import annotations

import torch

from sglang_dspine.bench.attention import Layer
from sglang_dspine.bench.budget import draft_round


def layer(context: int, window: int) -> Layer:
    torch.manual_seed(0)
    return Layer(2, 4, context, torch.bfloat16, window, device="cpu")


def test_exact_rows_are_torchs_attention_over_the_window():
    made = layer(50, 16)
    exact = made.exact()
    row = torch.arange(50, 54)[:, None]
    mask = (torch.arange(54) <= row) & (torch.arange(54) > row - 16)
    for i in range(2):
        slots = made.table[i].long()
        k, v = (cache[slots].double().transpose(0, 1) for cache in (made.keys, made.values))
        q = made.queries[4 * i : 4 * i + 4].double().transpose(0, 1)
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
        torch.testing.assert_close(exact[4 * i : 4 * i + 4], expected.transpose(0, 1))


def test_keys_before_the_window_do_not_matter_and_those_inside_do():
    made = layer(50, 16)
    before = made.exact()
    made.values[made.table[:, :35].long()] = 100.0  # the first row sees positions 35 to 50
    assert torch.equal(made.exact(), before)
    made.values[made.table[:, 35].long()] = 100.0
    assert not torch.equal(made.exact(), before)


def test_bytes_read_are_the_budgets_and_do_not_grow_behind_the_window():
    stages = {stage.name: stage for stage in draft_round(1, 8, 8192)}
    inside, behind = layer(8192, 8192), layer(9000, 8192)
    assert inside.read == behind.read
    per_user = 5 * inside.read / inside.n
    assert abs(per_user / stages["window attention"].bytes - 1) < 0.01
