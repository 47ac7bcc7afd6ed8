"""Verify of the gated delta rule with rings in the place of states (ReplaySSM), one row after another.

A request's ring of R rows holds updates d [HV, R, V], normalised keys k [H, R, K] and log decays g [HV, R]: its
history from `base` on, `length` rows that are not folded into its state yet, and behind them the rows of the block that
is being verified. Rings of 16 bits keep what rounding took off d and k beside them.
"""

from __future__ import annotations

from itertools import pairwise

import torch

from .gated_delta import l2_normalise
from .gating import fused_gdn_gating_cpu


def verify(
    q, k, v, a, b, A_log, dt_bias, checkpoint_state, d_cache, k_cache, g_cache, rawv_cache, rawk_cache, beta_cache, out,
    query_start_loc, ssm_state_indices, replay_indices, write_pos, cache_base, is_flush, max_cache_len, max_spec_len,
    null_block_id=0, launch_mode="both", **unused,
):  # fmt: skip
    """Outputs [T, HV, V] of packed blocks into `out`, their rows into the rings; states and cursors stay."""
    if launch_mode != "verify" or beta_cache is not None:
        raise NotImplementedError("the CPU stand-in has the compact rings of Gated DeltaNet only")
    g, beta = (x[0] for x in fused_gdn_gating_cpu(A_log, a, b, dt_bias))  # [T, HV]
    q, k = l2_normalise(q) * q.shape[-1] ** -0.5, l2_normalise(k)
    for i, (first, last) in enumerate(pairwise(query_start_loc.tolist())):
        slot, ring = int(ssm_state_indices[i]), int(replay_indices[i])
        out[first:last] = 0
        if slot <= null_block_id:
            continue
        rings = Ring(d_cache[ring], k_cache[ring], g_cache[ring],
                     *(None if low is None else low[ring] for low in (rawv_cache, rawk_cache)))  # fmt: skip
        base, length = int(cache_base[ring]), int(write_pos[ring])
        state = checkpoint_state[slot].float()
        for row in range(length):
            state = rings.step(state, (base + row) % max_cache_len)
        for t in range(first, last):
            place = (base + length + t - first) % max_cache_len
            faded = state * g[t].double().exp().float()[:, None, None]
            key = rings.wide(k[t])  # [HV, K]
            delta = (v[t].float() - (faded * key[:, None]).sum(-1)) * beta[t, :, None]
            rings.keep(place, delta, k[t], g[t])
            state = faded + delta[..., None] * key[:, None]
            out[t] = (state * rings.wide(q[t])[:, None]).sum(-1).to(out.dtype)
    return out


class Ring:
    """One request's, in one layer."""

    def __init__(self, d, k, g, d_low, k_low):
        self.d, self.k, self.g, self.d_low, self.k_low = d, k, g, d_low, k_low

    def wide(self, x):
        """Key heads as their value heads see them: [H, K] -> [HV, K]"""
        return x.repeat_interleave(self.d.shape[0] // self.k.shape[0], 0)

    def keep(self, place, delta, key, gate):
        self.g[:, place] = gate.float()
        for ring, low, value in ((self.d, self.d_low, delta), (self.k, self.k_low, key)):
            ring[:, place] = value.to(ring.dtype)
            if low is not None:
                low[:, place] = (value - ring[:, place].float()).to(low.dtype)

    def step(self, state, place):
        d, k = self.d[:, place].float(), self.k[:, place].float()
        if self.d_low is not None:
            d, k = d + self.d_low[:, place].float(), k + self.k_low[:, place].float()
        return state * self.g[:, place].exp()[:, None, None] + d[..., None] * self.wide(k)[:, None]


def advance(
    write_pos, cache_base, is_flush, num_accepted, replay_indices, max_cache_len, max_spec_len,
    fold_every_commit=False, cache_buf_len=None, null_block_id=0,
):  # fmt: skip
    """Accepted rows join the histories; one is due when the widest block twice over would not fit behind it."""
    live = replay_indices > null_block_id
    slots, accepted = replay_indices[live].long(), num_accepted[live].to(write_pos.dtype)
    due = is_flush[slots] != 0
    shifted = (cache_base[slots] + write_pos[slots]) & ((cache_buf_len or max_cache_len) - 1)
    cache_base[slots] = torch.where(due & (accepted > 0), shifted, cache_base[slots])
    length = torch.where(due, accepted, write_pos[slots] + accepted)
    write_pos[slots] = length
    full = length > 0 if fold_every_commit else length + 2 * max_spec_len > max_cache_len
    is_flush[slots] = full.to(is_flush.dtype)
