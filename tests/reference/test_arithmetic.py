"""Fixed order: the bits of a number depend on nothing but its own inputs."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sglang_dspine.reference import DEFAULT, FIXED_FLOAT64

from .cases import few


def numbers(seed, *shape):
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@few
@given(seed=st.integers(0, 999), rows=st.integers(1, 33), zeros=st.integers(0, 40))
def test_products_in_fixed_order_know_neither_the_number_of_rows_nor_trailing_zeros(seed, rows, zeros):
    x, y = numbers(seed, 33, 19), numbers(seed + 1, 7, 19)
    whole = FIXED_FLOAT64.product(x, y)
    pad = torch.nn.functional.pad
    assert torch.equal(FIXED_FLOAT64.product(pad(x[:rows], (0, zeros)), pad(y, (0, zeros))), whole[:rows])
    torch.testing.assert_close(whole, DEFAULT.product(x, y))


@pytest.mark.parametrize("name", ["sigmoid", "silu", "softmax"])
def test_functions_in_fixed_order_know_nothing_of_their_neighbours(name):
    """Where torch takes a value, inside its vector loop or behind it, must not show."""
    function = getattr(FIXED_FLOAT64, name)
    x = numbers(3, 4001, 5)
    whole = function(x)
    assert torch.equal(torch.cat([function(row[None].clone()) for row in x]), whole)
    assert torch.equal(function(x.T.contiguous().T), whole)  # strided
    torch.testing.assert_close(whole, getattr(torch.nn.functional, name)(x, *([-1] if name == "softmax" else [])))
