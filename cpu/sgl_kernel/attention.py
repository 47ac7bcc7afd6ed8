"""Paged attention over SGLang's KV pool.

q            [tokens, Hq, D]      rows of all requests, concatenated
k_pool       [slots, Hkv, D]      the layer's key pool; v_pool alike
req_to_token [requests, context]  slot of every position of a request
"""

from __future__ import annotations

import torch

OPS = ("decode_attention_cpu", "extend_attention_cpu")


def attend(q, k, v, visible, scale: float, logit_cap: float):
    """q [B, Q, Hq, D], k [B, K, Hkv, D], v [B, K, Hkv, Dv], visible bool [B, Q, K] -> [B, Q, Hq, Dv].

    Query heads are grouped over key heads. Arithmetic in float64, so that a row rounds to the same result of q's
    dtype whichever rows and requests are computed beside it.
    """
    batch, rows, heads, dim = q.shape
    kv_heads = k.shape[2]
    grouped = q.double().reshape(batch, rows, kv_heads, heads // kv_heads, dim).permute(0, 2, 3, 1, 4)
    scores = (grouped @ k.double().permute(0, 2, 3, 1)[:, :, None]).mul_(scale)  # [B, Hkv, g, Q, K]
    if logit_cap > 0:
        scores = torch.tanh(scores / logit_cap) * logit_cap
    scores.masked_fill_(~visible[:, None, None], float("-inf"))
    out = scores.softmax(-1) @ v.double().permute(0, 2, 1, 3)[:, :, None]  # [B, Hkv, g, Q, Dv]
    return out.permute(0, 3, 1, 2, 4).reshape(batch, rows, heads, -1).to(q.dtype)


def last_rows(q, k_pool, v_pool, slots, lengths, rows: int, scale, logit_cap, window: int, causal: bool):
    """Attention of the last `rows` positions of each of B requests; q [B * rows, Hq, D] -> alike.

    slots [B, >= longest] and lengths [B] say where each request's keys lie. A window of 0 keys means unlimited.
    """
    key = torch.arange(int(lengths.max()))
    inside = key < lengths[:, None]  # [B, K]
    at = slots[:, : key.numel()].long()
    at = torch.where(inside, at, at[:, :1])  # a slot of its own: what lies beyond might not be finite
    query = (lengths[:, None] - rows + torch.arange(rows))[..., None]  # [B, Q, 1]
    visible = key <= query if causal else inside[:, None].expand(-1, rows, -1)
    if window > 0:
        visible = visible & (key > query - window)
    folded = q.reshape(lengths.numel(), rows, *q.shape[1:])
    return attend(folded, k_pool[at], v_pool[at], visible, scale, logit_cap).flatten(0, 1)


def decode_attention_cpu(
    q, k_pool, v_pool, k_scale, v_scale, out, k, v, slots, logits, req_to_token, req_pool_indices, seq_lens,
    scale, logit_cap, is_cross, window, encoder_lens, sinks,
):  # fmt: skip
    """One new row a request: k, v [requests, Hkv, D] are written at `slots`, then out [requests, Hq, Dv]."""
    _refuse(is_cross, sinks)
    if k is not None:
        k_pool[slots] = k.view(-1, *k_pool.shape[1:]).to(k_pool.dtype)
        v_pool[slots] = v.view(-1, *v_pool.shape[1:]).to(v_pool.dtype)
    table = req_to_token[req_pool_indices]
    out.copy_(last_rows(q, k_pool, v_pool, table, seq_lens, 1, scale, logit_cap, window, causal=True))


def extend_attention_cpu(
    q, k, v, out, k_pool, v_pool, k_scale, v_scale, req_to_token, req_pool_indices, seq_lens, extend_lens,
    extend_starts, max_extend, scale, logit_cap, is_cross, window, encoder_lens, sinks, tree_mask=None,
    causal=True,
):  # fmt: skip
    """The last extend_lens[i] of seq_lens[i] positions of each request; the pool holds their keys already."""
    _refuse(is_cross, sinks)
    if tree_mask is not None:
        raise NotImplementedError("the CPU stand-in verifies chains, not draft trees")
    table, lens = req_to_token[req_pool_indices], extend_lens.tolist()
    if len(set(lens)) == 1:  # a verify: all requests at once
        groups = [(slice(None), slice(None), lens[0])]
    else:
        starts = extend_starts.tolist()
        groups = [(slice(i, i + 1), slice(starts[i], starts[i] + n), n) for i, n in enumerate(lens)]
    for requests, part, rows in groups:
        if rows > 0:
            where = table[requests], seq_lens[requests], rows
            out[part] = last_rows(q[part], k_pool, v_pool, *where, scale, logit_cap, window, causal)


def _refuse(is_cross, sinks) -> None:
    if is_cross or sinks is not None:
        raise NotImplementedError("the CPU stand-in has neither cross attention nor attention sinks")
