"""Paged attention over SGLang's KV pool, one request at a time.

q            [tokens, Hq, D]      rows of all requests, concatenated
k_pool       [slots, Hkv, D]      the layer's key pool; v_pool alike
req_to_token [requests, context]  slot of every position of a request
"""

from __future__ import annotations

import torch

OPS = ("decode_attention_cpu", "extend_attention_cpu")


def attend(q, k, v, visible, scale: float, logit_cap: float = 0.0):
    """Softmax attention of one request: q [Q, Hq, D], k [K, Hkv, D], v [K, Hkv, Dv], visible bool [Q, K].

    Query heads are grouped over key heads. Arithmetic in float64, so that a row rounds to the same result
    [Q, Hq, Dv] of q's dtype whichever rows are computed beside it.
    """
    rows, heads, dim = q.shape
    kv_heads = k.shape[1]
    grouped = q.double().view(rows, kv_heads, heads // kv_heads, dim).permute(1, 2, 0, 3)  # [Hkv, g, Q, D]
    keys = k.double().permute(1, 2, 0)[:, None]  # [Hkv, 1, D, K]
    values = v.double().permute(1, 0, 2)[:, None]  # [Hkv, 1, K, Dv]
    scores = (grouped @ keys).mul_(scale)  # [Hkv, g, Q, K]
    if logit_cap > 0:
        scores = torch.tanh(scores / logit_cap) * logit_cap
    scores.masked_fill_(~visible, float("-inf"))
    out = scores.softmax(-1) @ values  # [Hkv, g, Q, Dv]
    return out.permute(2, 0, 1, 3).reshape(rows, heads, -1).to(q.dtype)


def visible_keys(rows: int, keys: int, window: int, causal: bool) -> torch.Tensor:
    """Mask bool [rows, keys] for the last `rows` of `keys` positions; a window of 0 keys means unlimited."""
    query = torch.arange(keys - rows, keys)[:, None]
    key = torch.arange(keys)[None]
    mask = key <= query if causal else torch.ones(rows, keys, dtype=torch.bool)
    return mask & (key > query - window) if window > 0 else mask


def decode_attention_cpu(
    q, k_pool, v_pool, k_scale, v_scale, out, k, v, slots, logits, req_to_token, req_pool_indices, seq_lens,
    scale, logit_cap, is_cross, window, encoder_lens, sinks,
):  # fmt: skip
    """One new row a request: k, v [requests, Hkv, D] are written at `slots`, then out [requests, Hq, Dv]."""
    _refuse(is_cross, sinks)
    if k is not None:
        k_pool[slots] = k.view(-1, *k_pool.shape[1:]).to(k_pool.dtype)
        v_pool[slots] = v.view(-1, *v_pool.shape[1:]).to(v_pool.dtype)
    for i, length in enumerate(seq_lens.tolist()):
        at = req_to_token[req_pool_indices[i], :length].long()
        mask = visible_keys(1, length, window, causal=True)
        out[i] = attend(q[i : i + 1], k_pool[at], v_pool[at], mask, scale, logit_cap)[0]


def extend_attention_cpu(
    q, k, v, out, k_pool, v_pool, k_scale, v_scale, req_to_token, req_pool_indices, seq_lens, extend_lens,
    extend_starts, max_extend, scale, logit_cap, is_cross, window, encoder_lens, sinks, tree_mask=None,
    causal=True,
):  # fmt: skip
    """The last extend_lens[i] of seq_lens[i] positions of each request; the pool holds their keys already."""
    _refuse(is_cross, sinks)
    if tree_mask is not None:
        raise NotImplementedError("the CPU stand-in verifies chains, not draft trees")
    lengths = zip(seq_lens.tolist(), extend_lens.tolist(), extend_starts.tolist(), strict=True)
    for i, (length, rows, start) in enumerate(lengths):
        if rows == 0:
            continue
        at = req_to_token[req_pool_indices[i], :length].long()
        mask = visible_keys(rows, length, window, causal)
        part = slice(start, start + rows)
        out[part] = attend(q[part], k_pool[at], v_pool[at], mask, scale, logit_cap)


def _refuse(is_cross, sinks) -> None:
    if is_cross or sinks is not None:
        raise NotImplementedError("the CPU stand-in has neither cross attention nor attention sinks")
