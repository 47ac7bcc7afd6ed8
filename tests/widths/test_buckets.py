"""Graphs are captured for exactly the batch sizes that use a width, and padding stays within them."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from sglang_dspine.widths.buckets import buckets_by_width

SIZES = [1, 2, 4, 8, 16, 32]


def test_a_run_of_batch_sizes_ends_in_a_captured_size():
    widths = [16, 16, 8, 8, 16, 16, 8]
    assert buckets_by_width(lambda b: (widths[min(b, 7) - 1],), SIZES) == {16: [1, 2, 6], 8: [4, 8, 16, 32]}


def test_one_width_keeps_sglangs_own_sizes():
    assert buckets_by_width(lambda b: (16,), SIZES) == {16: SIZES}


@given(st.lists(st.sampled_from([1, 4, 8, 16]), min_size=1, max_size=40))
def test_every_batch_has_a_graph_of_its_width_and_every_graph_a_batch(widths):
    def width_of(batch):
        return widths[min(batch, len(widths)) - 1]

    found = buckets_by_width(lambda b: (width_of(b),), SIZES)
    for batch in range(1, SIZES[-1] + 1):
        sizes = found[width_of(batch)]
        padded = sizes[bisect_left(sizes, batch)]
        assert all(width_of(b) == width_of(batch) for b in range(batch, padded + 1))
    for width, sizes in found.items():
        assert all(width_of(size) == width for size in sizes)


def test_nothing_beyond_sglangs_largest_size_is_captured():
    assert buckets_by_width(lambda b: (16 if b <= SIZES[-1] + 1 else 8,), SIZES) == {16: SIZES}
