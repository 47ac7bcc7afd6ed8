"""Fold-on-commit of ReplaySSM rings, in the place of SGLang's `commit_gdn_replayssm_circular` (report 2)."""

from __future__ import annotations

import torch


def commit_rings(
    *,
    checkpoint_state: torch.Tensor,
    d_cache: torch.Tensor,
    k_cache: torch.Tensor,
    g_cache: torch.Tensor,
    d_residual_cache: torch.Tensor | None,
    k_residual_cache: torch.Tensor | None,
    state_batch_indices: torch.Tensor,
    replay_indices: torch.Tensor,
    write_pos: torch.Tensor,
    cache_base: torch.Tensor,
    is_flush: torch.Tensor,
    accept_lens: torch.Tensor,
    mamba_track_indices: torch.Tensor | None = None,
    mamba_steps_to_track: torch.Tensor | None = None,
    null_block_id: int = -1,
) -> None:
    """SGLang's function by its own parameters; shapes in `plan`. Rows that were not accepted cannot be felt."""
    from ..switch import runs_kernels
    from .naive import commit_naive
    from .plan import Rings, Rows, plan_fold

    rings = Rings(checkpoint_state, d_cache, k_cache, g_cache, d_residual_cache, k_residual_cache, write_pos,
                  cache_base, is_flush)  # fmt: skip
    every = (state_batch_indices, replay_indices, accept_lens, mamba_track_indices, mamba_steps_to_track)
    rows = Rows(*(None if t is None else t.contiguous() for t in every))  # type: ignore[arg-type]
    if not runs_kernels(checkpoint_state):
        commit_naive(rings, rows, null_block_id)
        return
    for launch in plan_fold(rings, rows, null_block_id):
        launch.run()
