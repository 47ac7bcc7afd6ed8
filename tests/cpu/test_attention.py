"""Paged attention against its definition, computed in float64 one score at a time."""

from __future__ import annotations

import math

import pytest
import torch

attention = pytest.importorskip("sgl_kernel.attention")

HEADS, KV_HEADS, DIM, SLOTS, SCALE = 4, 2, 8, 64, 0.3


def defined(q, keys, values, visible, scale, cap):
    """q [Q, Hq, D], keys and values [K, Hkv, D] -> [Q, Hq, D], one softmax a row and head."""
    out = torch.zeros(q.shape, dtype=torch.float64)
    group = q.shape[1] // keys.shape[1]
    for row in range(q.shape[0]):
        for head in range(q.shape[1]):
            weights = []
            for key in range(keys.shape[0]):
                if not visible(row, key):
                    continue
                score = float(q[row, head].double() @ keys[key, head // group].double()) * scale
                weights.append((math.exp(cap * math.tanh(score / cap) if cap else score), key))
            total = sum(weight for weight, _ in weights)
            for weight, key in weights:
                out[row, head] += weight / total * values[key, head // group].double()
    return out


class Pool:
    """Two requests whose positions lie in shuffled slots of one pool."""

    def __init__(self, lengths):
        torch.manual_seed(0)
        self.lengths = lengths
        self.k, self.v = torch.randn(2, SLOTS, KV_HEADS, DIM)
        self.table = torch.zeros(3, 32, dtype=torch.int32)
        self.rows = torch.tensor([2, 0])
        slots = torch.randperm(SLOTS)[: sum(lengths)].split(lengths)
        for row, mine in zip(self.rows.tolist(), slots, strict=False):
            self.table[row, : len(mine)] = mine

    def of(self, request):
        at = self.table[self.rows[request], : self.lengths[request]].long()
        return self.k[at], self.v[at]

    def extend(self, q, extend_lens, window=0, cap=0.0, causal=True, **more):
        starts = torch.tensor([0, extend_lens[0]])
        out = torch.empty_like(q)
        attention.extend_attention_cpu(
            q, None, None, out, self.k, self.v, 1.0, 1.0, self.table, self.rows, torch.tensor(self.lengths),
            torch.tensor(extend_lens), starts, max(extend_lens), SCALE, cap, False, window, None, None,
            causal=causal, **more,
        )  # fmt: skip
        return out


@pytest.mark.parametrize(("window", "cap", "causal"), [(0, 0.0, True), (5, 0.0, True), (0, 1.5, True), (0, 0.0, False)])
def test_extension_is_softmax_attention_over_prefix_and_block(window, cap, causal):
    pool, extend_lens = Pool([13, 9]), [4, 9]
    q = torch.randn(13, HEADS, DIM)
    out = pool.extend(q, extend_lens, window, cap, causal)
    for request, part in enumerate(q.split(extend_lens)):
        keys, values = pool.of(request)
        first = pool.lengths[request] - extend_lens[request]

        def visible(row, key, first=first):
            position = first + row
            return (key <= position or not causal) and (window == 0 or key > position - window)

        expected = defined(part, keys, values, visible, SCALE, cap)
        torch.testing.assert_close(out.split(extend_lens)[request].double(), expected, rtol=1e-5, atol=1e-6)


def test_decoding_stores_the_new_keys_and_attends_to_them():
    pool = Pool([13, 9])
    q, k, v = torch.randn(2, HEADS, DIM), torch.randn(2, KV_HEADS, DIM), torch.randn(2, KV_HEADS, DIM)
    last = [pool.table[row, n - 1].item() for row, n in zip(pool.rows, pool.lengths, strict=True)]
    out = torch.empty_like(q)
    attention.decode_attention_cpu(
        q, pool.k, pool.v, 1.0, 1.0, out, k, v, torch.tensor(last), None, pool.table, pool.rows,
        torch.tensor(pool.lengths), SCALE, 0.0, False, 0, None, None,
    )  # fmt: skip
    assert torch.equal(pool.k[last], k) and torch.equal(pool.v[last], v)
    for request in range(2):
        expected = defined(q[request : request + 1], *pool.of(request), lambda row, key: True, SCALE, 0.0)
        torch.testing.assert_close(out[request : request + 1].double(), expected, rtol=1e-5, atol=1e-6)


def test_a_request_is_computed_alike_alone_and_in_a_batch():
    pool, q = Pool([13, 9]), torch.randn(13, HEADS, DIM)
    together = pool.extend(q, [4, 9])[4:]
    pool.rows, pool.lengths = pool.rows[1:], pool.lengths[1:]
    out = torch.empty_like(q[4:])
    attention.extend_attention_cpu(
        q[4:], None, None, out, pool.k, pool.v, 1.0, 1.0, pool.table, pool.rows, torch.tensor(pool.lengths),
        torch.tensor([9]), torch.tensor([0]), 9, SCALE, 0.0, False, 0, None, None,
    )  # fmt: skip
    assert torch.equal(together, out)


def test_trees_and_sinks_are_refused():
    pool, q = Pool([13, 9]), torch.randn(13, HEADS, DIM)
    with pytest.raises(NotImplementedError, match="trees"):
        pool.extend(q, [4, 9], tree_mask=torch.ones(97, dtype=torch.bool))


def test_a_row_of_a_block_is_the_row_decoded_alone():
    pool = Pool([13, 9])
    q = torch.randn(8, HEADS, DIM)
    block = pool.extend(q, [4, 4])
    for row in range(4):
        pool.lengths = [10 + row, 6 + row]
        assert torch.equal(pool.extend(q[[row, 4 + row]], [1, 1]), block[[row, 4 + row]])


def test_what_lies_in_slots_of_others_cannot_spoil_a_row():
    pool = Pool([13, 9])
    q = torch.randn(8, HEADS, DIM)
    clean = pool.extend(q, [4, 4])
    others = sorted(set(range(SLOTS)) - {int(s) for i in range(2) for s in pool.table[pool.rows[i], : pool.lengths[i]]})
    pool.k[others] = pool.v[others] = float("nan")
    assert torch.equal(pool.extend(q, [4, 4]), clean)
