"""Products of few rows are computed among more."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

rows = pytest.importorskip("sglang_cpu_platform.hooks.rows")


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 16])
def test_a_product_of_few_rows_has_the_bits_of_one_of_many(count):
    torch.manual_seed(0)
    x, weight = torch.randn(16, 64), torch.randn(96, 64)
    product = lambda given: F.linear(given, weight)  # noqa: E731
    found = rows.padded(product, x[:count])
    assert found.shape == (count, 96)
    assert torch.equal(found, product(x)[:count])


def test_silu_has_the_same_bits_at_every_place():
    torch.manual_seed(0)
    x = torch.randn(5, 14)
    whole = rows.silu_and_mul(None, None, x)
    assert torch.equal(torch.cat([rows.silu_and_mul(None, None, row[None]) for row in x]), whole)
    torch.testing.assert_close(whole, F.silu(x[:, :7]) * x[:, 7:])
