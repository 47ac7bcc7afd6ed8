"""Bookkeeping of slots, and moves within the pool."""

from __future__ import annotations

import pytest
import torch

kv = pytest.importorskip("sgl_kernel.kv")


def test_slots_written_to_the_table_are_read_back():
    table = torch.zeros(4, 10, dtype=torch.int32)
    rows, start, end = torch.tensor([3, 1]), torch.tensor([2, 0]), torch.tensor([5, 4])
    slots = torch.arange(40, 47)
    kv.assign_req_to_token_pool_cpu(rows, table, start, end, slots, 10)
    assert table[3].tolist() == [0, 0, 40, 41, 42, 0, 0, 0, 0, 0]
    assert table[1].tolist() == [43, 44, 45, 46, 0, 0, 0, 0, 0, 0]
    found = torch.zeros(7, dtype=torch.int64)
    kv.assign_extend_cache_locs_cpu(rows, table, start, end, found, 10)
    assert torch.equal(found, slots)


def test_rows_move_in_every_layer_even_onto_one_another():
    layers = [torch.randn(8, 2, 3) for _ in range(2)]
    before = [layer.clone() for layer in layers]
    addresses = torch.tensor([layer.data_ptr() for layer in layers])
    sizes = torch.tensor([layer[0].nbytes for layer in layers])
    source, target = torch.tensor([1, 2, 3]), torch.tensor([2, 3, 4])
    kv.copy_all_layer_kv_cache_cpu(addresses, sizes, target, source)
    for layer, old in zip(layers, before, strict=True):
        assert torch.equal(layer[2:5], old[1:4])
        assert torch.equal(layer[[0, 1, 5, 6, 7]], old[[0, 1, 5, 6, 7]])
