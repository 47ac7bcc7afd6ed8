"""Copies of recurrent state that SGLang does in Triton: the commit of a verified row, and snapshots.

pool   [layers, slots, ...]        one state per request
rows   [layers, requests, T, ...]  the state after each verified row
"""

from __future__ import annotations

import torch

TRITON = "sglang.kernels.ops.mamba.mamba_state_scatter_triton"


def commit_rows(pool, rows, slots, steps, requests=None):
    """pool[:, slots[i]] = rows[:, requests[i], steps[i]]; a step or slot out of range skips request i."""
    steps, slots = steps.long(), slots.long()
    requests = torch.arange(steps.numel()) if requests is None else requests.long()
    inside = (steps >= 0) & (steps < rows.shape[2]) & (slots >= 0) & (slots < pool.shape[1])
    inside &= requests < rows.shape[1]
    pool[:, slots[inside]] = rows[:, requests[inside], steps[inside]].to(pool.dtype)


def snapshot_layer(conv, ssm, slots, mask, into, batch, check_freed_slots=False):
    """conv, ssm [slots, ...]: copy the states of the masked requests to their snapshot slots."""
    snapshot_layers(conv[None], ssm[None], slots, mask, into, batch, check_freed_slots)


def snapshot_layers(conv, ssm, slots, mask, into, batch, check_freed_slots=False):
    """conv, ssm [layers, slots, ...]: the same for all layers."""
    chosen = mask[:batch].bool() & (slots[:batch] >= 0)
    source, target = slots[:batch][chosen].long(), into[:batch][chosen].long()
    for pool in (conv, ssm):
        pool[:, target] = pool[:, source]


def install() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for name, function in {
        "fused_mamba_state_scatter_with_mask": commit_rows,
        "fused_conv_window_scatter_with_mask": commit_rows,
        "track_mamba_states_if_needed": snapshot_layer,
        "track_mamba_states_all_layers": snapshot_layers,
        "_conv_multi_eligible": lambda pairs: False,
    }.items():
        HookRegistry.register(f"{TRITON}.{name}", function, HookType.REPLACE)
