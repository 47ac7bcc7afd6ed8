"""Commit the recurrent (Gated DeltaNet) states of the accepted prefix of each request.

During verify SGLang leaves the pool's states alone and keeps one state, or one ring row, per block token. Its DFLASH
worker commits through a path that knows no GDN ReplaySSM (report 2); `commit_mamba_states_after_verify` knows both.
"""

from __future__ import annotations

from typing import Any

import torch


def track_steps(before: torch.Tensor, after: torch.Tensor, commit_lens: torch.Tensor, interval: int) -> torch.Tensor:
    """Block step whose state the prefix cache wants: the last multiple of `interval` the round crossed, else -1.

    before, after, commit_lens: [N] lengths before and after the round, and tokens committed. Returns [N] int64.
    """
    boundary = after // interval * interval
    step = (boundary - before - 1).clamp_min(0)
    crossed = (before // interval != after // interval) & (step < commit_lens)
    return torch.where(crossed, step, -1).to(torch.int64)


def commit_recurrent(
    target_worker: Any, batch: Any, before: torch.Tensor, commit_lens: torch.Tensor, width: int, max_width: int
) -> None:
    """Move the state after each request's last committed token into the pool.

    Args:
        before: [N] lengths before the round; commit_lens: [N] tokens committed (bonus row excluded, anchor included).
        width: rows of this verify. max_width: widest verify of this server; ReplaySSM's flush margin needs that one,
            or a ring filled under a narrow width could overflow under a wide one.
    """
    from sglang.srt.runtime_context import mamba_track_grid
    from sglang.srt.speculative.spec_utils import commit_mamba_states_after_verify

    n = commit_lens.shape[0]
    steps = commit_lens.to(torch.int64) - 1
    tracked = None
    if batch.mamba_track_indices is not None:
        interval = mamba_track_grid(batch.tree_cache.page_size)
        tracked = track_steps(before, before + commit_lens, commit_lens, interval)
    commit_mamba_states_after_verify(
        target_worker,
        batch,
        accept_lens=commit_lens,
        accept_index=torch.arange(n * width, device=commit_lens.device).view(n, width),
        draft_token_num=max_width,
        prepared_step_indices=(steps, tracked),
    )
