"""The gated delta rule (arXiv 2412.06464), one step after another.

S_t = exp(g_t) S_{t-1} + beta_t (v_t - exp(g_t) S_{t-1} k_t) k_t^T        o_t = S_t q_t

q, k [1, T, HK, K]   v [1, T, HV, V]   g, beta [1, T, HV]   state [slots, HV, V, K]
"""

from __future__ import annotations

from itertools import pairwise

import torch

from .gating import fused_gdn_gating_cpu

OPS = ("fused_sigmoid_gating_delta_rule_update_cpu",)
CHUNK = 64  # SGLang tracks prefix states at multiples of this many tokens


def l2_normalise(x: torch.Tensor) -> torch.Tensor:
    x = x.float()
    return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6)


def scan(q, k, v, g, beta, state):
    """Requests of equal length side by side: q, k [B, T, HK, K], v [B, T, HV, V], state [B, HV, V, K].

    Yields (o [B, HV, V], state after the row) for each of the T rows, float32. Sums run along the contiguous
    last axis, so a row's result has the same bits whether it is decoded alone or verified among others.
    """
    repeat = v.shape[2] // q.shape[2]
    q = (l2_normalise(q) * q.shape[-1] ** -0.5).repeat_interleave(repeat, 2)
    k = l2_normalise(k).repeat_interleave(repeat, 2)
    v, decay, state = v.float(), g.double().exp().float(), state.float()  # see gating.py
    for t in range(q.shape[1]):
        key = k[:, t, :, None]  # [B, HV, 1, K]
        state = state * decay[:, t, :, None, None]
        delta = (v[:, t] - (state * key).sum(-1)) * beta[:, t, :, None]
        state = state + delta[..., None] * key
        yield (state * q[:, t, :, None]).sum(-1), state


def chunk_gated_delta_rule_cpu(
    q, k, v, g, beta, initial_state, cu_seqlens, initial_state_indices=None, head_first=False,
    use_qk_l2norm_in_kernel=True, **unused,
):  # fmt: skip
    """Prefill of packed requests; the state pool is updated in place.

    Returns o [1, T, HV, V], None, and h [1, chunks, HV, V, K]: the state before each 64-token chunk.
    """
    out, starts, before = v.new_zeros(v.shape), cu_seqlens.tolist(), []
    for i, (first, last) in enumerate(pairwise(starts)):
        if first == last:
            continue
        slot, part = int(initial_state_indices[i]), slice(first, last)
        state = initial_state[slot][None].float().clone()  # `before` must not follow the pool
        steps = scan(q[:, part], k[:, part], v[:, part], g[:, part], beta[:, part], state)
        for t, (row, after) in enumerate(steps):
            if t % CHUNK == 0:
                before.append(state[0])
            out[0, first + t] = row[0].to(out.dtype)
            state = after
        initial_state[slot] = state[0].to(initial_state.dtype)
    return out, None, torch.stack(before)[None] if before else None


def fused_sigmoid_gating_delta_rule_update_cpu(
    A_log, dt_bias, q, k, v, a, b, initial_state_source, initial_state_indices, cu_seqlens,
    use_qk_l2norm_in_kernel=True, softplus_beta=1.0, softplus_threshold=20.0, is_kda=False,
    disable_state_update=False, intermediate_states_buffer=None, intermediate_state_indices=None,
    cache_steps=None, retrieve_parent_token=None, **unused,
):  # fmt: skip
    """Decode (one row a request) or verify (the same number of rows for every request), gates included.

    Verify leaves the pool alone (`disable_state_update`); `intermediate_states_buffer`
    [requests, T, HV, V, K] receives the state after each row.
    """
    if retrieve_parent_token is not None or is_kda:
        raise NotImplementedError("the CPU stand-in has the gated delta rule over chains only")
    batch = cu_seqlens.numel() - 1
    fold = lambda x: x.reshape(batch, -1, *x.shape[2:])  # noqa: E731  [1, B*T, ...] -> [B, T, ...]
    g, beta = fused_gdn_gating_cpu(A_log, a.reshape(-1, A_log.numel()), b.reshape(-1, A_log.numel()), dt_bias)
    live = initial_state_indices[:batch] >= 0
    slots = initial_state_indices[:batch][live].long()
    inputs = [fold(x)[live] for x in (q, k, v, g, beta)]
    out = v.new_zeros(v.shape)
    rows, state = fold(out), initial_state_source[slots]
    for t, (row, after) in enumerate(scan(*inputs, state)):
        rows[live, t] = row.to(out.dtype)
        if intermediate_states_buffer is not None:
            into = intermediate_state_indices[:batch][live].long()
            intermediate_states_buffer[into, t] = after.to(intermediate_states_buffer.dtype)
        state = after
    if not disable_state_update:
        initial_state_source[slots] = state.to(initial_state_source.dtype)
    return out
