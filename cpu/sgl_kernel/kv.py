"""Bookkeeping of the KV pool.

req_to_token [requests, context] is SGLang's table from a request's position to its KV slot.
"""

from __future__ import annotations

import ctypes


def assign_req_to_token_pool_cpu(req_pool_indices, req_to_token, start, end, slots, width) -> None:
    """Write each request's positions start[i]:end[i] from the packed `slots`."""
    at = 0
    for row, first, last in zip(req_pool_indices.tolist(), start.tolist(), end.tolist(), strict=True):
        req_to_token[row, first:last] = slots[at : at + last - first].to(req_to_token.dtype)
        at += last - first


def assign_extend_cache_locs_cpu(req_pool_indices, req_to_token, start, end, slots, width) -> None:
    """Read each request's positions start[i]:end[i] into the packed `slots`: the inverse of the above."""
    at = 0
    for row, first, last in zip(req_pool_indices.tolist(), start.tolist(), end.tolist(), strict=True):
        slots[at : at + last - first] = req_to_token[row, first:last].to(slots.dtype)
        at += last - first


def copy_all_layer_kv_cache_cpu(buffers, row_bytes, target, source) -> None:
    """Move KV rows source[i] -> target[i] in every layer.

    `buffers` holds the address of each layer's pool, `row_bytes` the size of one of its rows. All rows are
    read before any is written, since the two ranges may overlap.
    """
    into, taken = target.tolist(), source.tolist()
    for base, size in zip(buffers.tolist(), row_bytes.tolist(), strict=True):
        rows = [ctypes.string_at(base + at * size, size) for at in taken]
        for at, row in zip(into, rows, strict=True):
            ctypes.memmove(base + at * size, row, size)
