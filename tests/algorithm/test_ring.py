"""A ring that cannot hold a verify block is refused with the number to pass (report 3)."""

from types import SimpleNamespace

import pytest

from sglang_dspine.algorithm.ring import require_ring, ring_for
from sglang_dspine.errors import FlagError

pytestmark = pytest.mark.report(3)


def arguments(length: int, width: int, on: bool = True):
    return SimpleNamespace(
        enable_linear_replayssm_spec=on, linear_replayssm_cache_len=length, speculative_num_draft_tokens=width
    )


@pytest.mark.parametrize(("width", "ring"), [(2, 16), (8, 16), (15, 16), (16, 16), (17, 32), (32, 32), (48, 64)])
def test_the_ring_is_a_power_of_two_that_holds_the_block(width, ring):
    assert ring_for(width) == ring
    require_ring(arguments(ring, width))
    require_ring(arguments(4 * ring, width))


@pytest.mark.parametrize(("length", "width", "number"), [(8, 8, 16), (16, 17, 32), (24, 16, 16), (48, 32, 32)])
def test_another_ring_is_refused_with_the_number_to_pass(length, width, number):
    with pytest.raises(FlagError, match=rf"--linear-replayssm-cache-len {length}: .*{width} rows.*pass {number}$"):
        require_ring(arguments(length, width))


def test_without_replay_no_ring_is_looked_at():
    require_ring(arguments(3, 16, on=False))
