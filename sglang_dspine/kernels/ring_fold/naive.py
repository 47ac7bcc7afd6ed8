"""Fold accepted rows of a ReplaySSM ring into the recurrent state, in plain torch.

| name | shape | at 27B | meaning |
|---|---|---|---|
| state | [HV, V, K] | [48, 128, 128] | recurrent state before the rows |
| d | [HV, n, V] | | updates: beta (v - S k), as verify wrote them |
| k | [H, n, K] | [16, n, 128] | normalised keys; HV / H value heads share one |
| g | [HV, n] | | log decay of each row |

A row decays the state by exp(g) and adds d kᵀ, so n rows at once are

    state · exp(g_1 + … + g_n)  +  Σ_t exp(g_t+1 + … + g_n) d_t k_tᵀ
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .plan import Rings, Rows


def fold_naive(state: torch.Tensor, d: torch.Tensor, k: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """State after the n rows, in the dtype of `g`."""
    state, d, k = (x.to(g.dtype) for x in (state, d, k))
    total = g.sum(-1, keepdim=True)  # [HV, 1]
    after = torch.exp(total - g.cumsum(-1))  # [HV, n] decay that follows each row
    k = k.repeat_interleave(state.shape[0] // k.shape[0], 0)
    return state * torch.exp(total)[..., None] + (d * after[..., None]).transpose(-1, -2) @ k


def recur(
    state: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sequential recurrence: the definition the ring stands for.

    state [HV, V, K], k [HV, n, K] normalised, v [HV, n, V], g and beta [HV, n]. Returns the state after each row
    [n, HV, V, K] and the updates d [HV, n, V].
    """
    states, updates = [], []
    for t in range(k.shape[1]):
        state = state * torch.exp(g[:, t])[:, None, None]
        update = beta[:, t, None] * (v[:, t] - (state @ k[:, t, :, None])[..., 0])
        state = state + update[..., None] * k[:, t, None, :]
        states.append(state)
        updates.append(update)
    return torch.stack(states), torch.stack(updates, 1)


def commit_naive(rings: Rings, rows: Rows, null: int) -> None:
    """What the launches of `plan.plan_fold` do, request by request, in place. Rows not accepted are not read."""
    for i, state_slot in enumerate(rows.state_slots.tolist()):
        if state_slot <= null:
            continue
        slot = int(rows.ring_slots[i])
        length, due = int(rings.lengths[slot]), bool(rings.flags[slot])
        snapshot = None
        if rows.track_slots is not None and rows.track_steps is not None:
            into, step = int(rows.track_slots[i]), int(rows.track_steps[i])
            if into > null and step >= 0:
                snapshot = into, length - int(rows.accepted[i]) + step + 1
        for layer in range(rings.states.shape[0]):
            state = rings.states[layer, state_slot].clone()
            if snapshot is not None:
                rings.states[layer, snapshot[0]] = history(rings, layer, slot, snapshot[1], state)
            if due:
                rings.states[layer, state_slot] = history(rings, layer, slot, length, state)
        if due:
            rings.bases[slot] = (rings.bases[slot] + length) % rings.d.shape[-2]
            rings.lengths[slot], rings.flags[slot] = 0, 0


def history(rings: Rings, layer: int, slot: int, count: int, state: torch.Tensor) -> torch.Tensor:
    """`state` [HV, V, K] after the first `count` rows of a slot's history, in the state's dtype."""
    place = (int(rings.bases[slot]) + torch.arange(count)) % rings.d.shape[-2]
    d, k = rings.d[layer, slot][:, place].float(), rings.k[layer, slot][:, place].float()
    if rings.d_low is not None and rings.k_low is not None:
        d, k = d + rings.d_low[layer, slot][:, place].float(), k + rings.k_low[layer, slot][:, place].float()
    return fold_naive(state, d, k, rings.g[layer, slot][:, place].float()).to(state.dtype)
