"""The launches of one fold."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..launch import Launch, ceil_div, power_of_2
from .kernel import ring_fold, ring_restart


class Rings(NamedTuple):
    """SGLang's pool of a Gated DeltaNet target under `--enable-linear-replayssm-spec`, all layers (memory_pool.py)."""

    states: torch.Tensor  # [L, slots, HV, V, K] BF16 or FP32
    d: torch.Tensor  # [L, requests, HV, R, V] updates, in the activations' dtype
    k: torch.Tensor  # [L, requests, H, R, K] normalised keys
    g: torch.Tensor  # [L, requests, HV, R] FP32 log decays
    d_low: torch.Tensor | None  # what rounding took off d and k; both are kept for 16-bit rings, else neither
    k_low: torch.Tensor | None
    lengths: torch.Tensor  # [requests] rows in the history
    bases: torch.Tensor  # [requests] where it begins
    flags: torch.Tensor  # [requests] not 0: fold it


class Rows(NamedTuple):
    """The requests of a batch, N of them."""

    state_slots: torch.Tensor  # [N] slot of the state; NULL and below: padding
    ring_slots: torch.Tensor  # [N]
    accepted: torch.Tensor  # [N] rows accepted in this step
    track_slots: torch.Tensor | None  # [N] where the prefix cache wants a snapshot
    track_steps: torch.Tensor | None  # [N] after which row of this step; -1: none


def plan_fold(rings: Rings, rows: Rows, null: int) -> list[Launch]:
    layers, _, heads, v, k = rings.states.shape
    ring, n = rings.d.shape[-2], rows.state_slots.shape[0]
    low = rings.d_low is not None
    track = rows.track_slots is not None and rows.track_steps is not None
    tile = min(power_of_2(v), 64)
    d_low = rings.d if rings.d_low is None else rings.d_low
    k_low = rings.k if rings.k_low is None else rings.k_low
    for name, tensor in (("states", rings.states), ("d", rings.d), ("k", rings.k), ("g", rings.g)):
        if not tensor[0, 0].is_contiguous():
            raise ValueError(f"{name} of one layer and slot must be contiguous, found strides {tensor.stride()}")
    if ring & (ring - 1) or ring < 16 or k & (k - 1):
        raise ValueError(f"a ring of {ring} rows and keys of {k}: expected powers of two, the ring at least 16")
    strides = {
        f"{name}_{part}": tensor.stride(axis)
        for name, tensor in (
            ("state", rings.states), ("d", rings.d), ("k", rings.k), ("g", rings.g), ("d_low", d_low), ("k_low", k_low)
        )
        for part, axis in (("slot", 1), ("layer", 0))
    }  # fmt: skip
    shared = {"state_slots": rows.state_slots, "ring_slots": rows.ring_slots, "lengths": rings.lengths,
              "bases": rings.bases, "flags": rings.flags}  # fmt: skip
    fold = Launch(
        ring_fold,
        (ceil_div(v, tile), n, heads * layers),
        {
            "states": rings.states, "d_ring": rings.d, "k_ring": rings.k, "g_ring": rings.g, "d_low_ring": d_low,
            "k_low_ring": k_low, **shared, "accepted": rows.accepted,
            "track_slots": rows.track_slots if track else rows.state_slots,
            "track_steps": rows.track_steps if track else rows.accepted, **strides,
        },
        {
            "H": rings.k.shape[2], "HV": heads, "K": k, "V": v, "R": ring, "BV": tile, "NULL": null, "TRACK": track,
            "LOW": low, "SPLIT": rings.k.dtype != torch.float32,
        },
        warps=4,
        stages=2,
    )  # fmt: skip
    constants = {"R": ring, "BLOCK": power_of_2(n), "NULL": null}
    return [fold, Launch(ring_restart, (1,), {**shared, "count": n}, constants, warps=1, stages=1)]
