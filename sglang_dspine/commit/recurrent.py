"""Commit the recurrent (Gated DeltaNet) states of the accepted prefix of each request.

During verify SGLang leaves the pool's states alone and keeps one state, or one ring row, per block token. Its DFLASH
worker commits through a path that knows no GDN ReplaySSM (report 2); `commit_mamba_states_after_verify` knows both.
"""

from __future__ import annotations

from typing import Any

import torch

NO_HISTORY = 1 << 20  # room that no ring has: its history is folded at every commit


def track_steps(before: torch.Tensor, after: torch.Tensor, commit_lens: torch.Tensor, interval: int) -> torch.Tensor:
    """Block step whose state the prefix cache wants: the last multiple of `interval` the round crossed, else -1.

    before, after, commit_lens: [N] lengths before and after the round, and tokens committed. Returns [N] int64.
    """
    boundary = after // interval * interval
    step = (boundary - before - 1).clamp_min(0)
    crossed = (before // interval != after // interval) & (step < commit_lens)
    return torch.where(crossed, step, -1).to(torch.int64)


def history_room(args: Any, max_width: int) -> int | None:
    """Rows that must stay free behind a ReplaySSM history, or None: a history never outlasts its round.

    Rings may keep rows that the pool's state lacks only where nothing but a verify step takes that state up. A mixed
    step extends a request that has been decoding by its state alone.

    Args:
        args: SGLang's server arguments. max_width: widest verify of this server: a ring filled under a narrow width
            could overflow under a wide one.
    """
    return None if args.enable_mixed_chunk else max_width


def commit_recurrent(
    target_worker: Any, batch: Any, before: torch.Tensor, commit_lens: torch.Tensor, width: int, room: int | None
) -> None:
    """Move the state after each request's last committed token into the pool.

    Args:
        before: [N] lengths before the round; commit_lens: [N] tokens committed (bonus row excluded, anchor included).
        width: rows of this verify. room: see `history_room`. Without extra buffers, too, every history is folded at
            once: the prefix cache then takes the state of a finished request as it lies in the pool.
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
        draft_token_num=room if room is not None and tracked is not None else NO_HISTORY,
        prepared_step_indices=(steps, tracked),
    )
