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

import torch


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
