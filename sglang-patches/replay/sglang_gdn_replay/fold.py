"""The commit of accepted rows from rings, which SGLang has for its other algorithms only (sglang#35725)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .rings import block_rows, ring_rows
from .sources import RINGS, ReplayError

logger = logging.getLogger(__name__)


def commit(
    original: Callable[..., Any],
    backend: Any,
    last_correct_step_indices: Any,
    mamba_track_indices: Any,
    mamba_steps_to_track: Any,
    model: Any,
    req_pool_indices: Any = None,
) -> None:
    """In place of `update_mamba_state_after_mtp_verify`: rings folded, windows moved, N accepted prefixes kept."""
    req_pool = backend.linear_attn_backend.req_to_token_pool
    pool = req_pool.mamba_pool
    if getattr(pool, "replayssm_cache_base", None) is None or pool.replayssm_is_kda:
        original(backend, last_correct_step_indices, mamba_track_indices, mamba_steps_to_track, model, req_pool_indices)
        return
    n = last_correct_step_indices.shape[0]
    if n == 0:
        return
    if req_pool_indices is None:
        raise ReplayError("the commit needs the requests' slots, and the caller passed none")
    translate = backend.linear_attn_backend._translate_mamba_indices
    requests = req_pool_indices[:n]
    slots = translate(req_pool.get_mamba_indices(requests))
    tracked = None if mamba_track_indices is None else translate(mamba_track_indices)
    accepted = last_correct_step_indices + 1
    state = req_pool.get_speculative_mamba2_params_all_layers()
    fold(pool, state, requests, slots, accepted, tracked, mamba_steps_to_track)
    move_windows(state, requests, slots, last_correct_step_indices, tracked, mamba_steps_to_track)
    if not getattr(pool, "replay_was_seen", False):
        pool.replay_was_seen = look_once(pool, state, requests, accepted)


def fold(pool: Any, state: Any, requests: Any, slots: Any, accepted: Any, tracked: Any, steps: Any) -> None:
    rings = import_module(RINGS)
    cursors = {"write_pos": pool.replayssm_spec_write_pos, "cache_base": pool.replayssm_cache_base,
               "is_flush": pool.replayssm_is_flush, "replay_indices": requests, "null_block_id": -1}  # fmt: skip
    rings.commit_gdn_replayssm_spec(
        **cursors, num_accepted=accepted, max_cache_len=ring_rows(pool), max_spec_len=block_rows(pool),
        fold_every_commit=state.temporal.element_size() < 4 or tracked is None or extends_what_decodes(),
    )  # fmt: skip
    rings.commit_gdn_replayssm_circular(
        **cursors, checkpoint_state=state.temporal, d_cache=state.replayssm_d, k_cache=state.replayssm_k,
        g_cache=state.replayssm_g, d_residual_cache=state.replayssm_rawv, k_residual_cache=state.replayssm_rawk,
        state_batch_indices=slots, accept_lens=accepted, mamba_track_indices=tracked, mamba_steps_to_track=steps,
    )  # fmt: skip


def extends_what_decodes() -> bool:
    """Mixed steps and streaming sessions go on from the state alone, as a prefix cache without extra buffers (where
    nothing is tracked) keeps it: no history may lag behind it then."""
    from sglang.srt.runtime_context import get_schedule, get_serving

    return bool(get_schedule().enable_mixed_chunk or get_serving().enable_streaming_session)


def move_windows(state: Any, requests: Any, slots: Any, last: Any, tracked: Any, steps: Any) -> None:
    """Convolution windows are kept a row each, with and without rings."""
    from sglang.kernels.ops.mamba.mamba_state_scatter_triton import fused_conv_window_scatter_with_mask
    from sglang.srt.layers.attention.linear.utils import pp_spec_stable_rows_enabled

    source = requests if pp_spec_stable_rows_enabled() else None
    for window, rows in zip(state.conv, state.intermediate_conv_window, strict=True):
        fused_conv_window_scatter_with_mask(window, rows, slots, last, source)
        if tracked is not None:
            fused_conv_window_scatter_with_mask(window, rows, tracked, steps, source)


def look_once(pool: Any, state: Any, requests: Any, accepted: Any) -> bool:
    """After the first commit: the rows were taken into histories, or folded. One wait for the device."""
    import torch

    if state.temporal.is_cuda and torch.cuda.is_current_stream_capturing():
        return False
    length = pool.replayssm_spec_write_pos[requests].tolist()
    begin, flags = pool.replayssm_cache_base[requests].tolist(), pool.replayssm_is_flush[requests].tolist()
    rows = ring_rows(pool)
    for held, start, flag, count in zip(length, begin, flags, accepted.tolist(), strict=True):
        if flag or (held != count and (held or start != count % rows)):
            raise ReplayError(
                f"the first commit of {count} rows left a history of {held} from {start}, to be folded: {bool(flag)}"
            )
    logger.info("ReplaySSM: the first commit took effect (%s rows)", accepted.tolist())
    return True
