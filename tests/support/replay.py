"""Servers that keep rings in the place of recurrent states (ReplaySSM), and how to look into their pools."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch

from .pairs import EXTRA_BUFFER

REPLAY = {"enable_linear_replayssm_spec": True, "linear_attn_decode_backend": "triton"}
LAZY = {**EXTRA_BUFFER, "mamba_radix_cache_strategy": "extra_buffer_lazy"}
SHORT = {**REPLAY, **LAZY}  # a ring of 16: every commit is folded
LONG = {**REPLAY, **EXTRA_BUFFER, "linear_replayssm_cache_len": 64}  # history lasts for several rounds
SERVERS = {"ring of 16, lazy buffer": SHORT, "ring of 64, extra buffer": LONG}


def mamba_pool(engine):
    return engine.model_runner.req_to_token_pool.mamba_pool


@contextmanager
def commits_shifted(by: int) -> Iterator[None]:
    """Planted: rings take one accepted row less, or one rejected row more. Convolution windows stay right."""
    from sglang.kernels.ops.attention.linear import gdn_replayssm_spec_decode as rings

    right = rings.commit_gdn_replayssm_spec

    def shifted(**given):
        right(**{**given, "num_accepted": (given["num_accepted"] + by).clamp_min(0)})

    with mock.patch.object(rings, "commit_gdn_replayssm_spec", shifted):
        yield


@contextmanager
def rejected_rows(engine, value: float) -> Iterator[None]:
    """Every ring row behind the accepted ones holds `value` when a round commits."""
    from sglang.srt.speculative import spec_utils

    pool, right = mamba_pool(engine), spec_utils.commit_mamba_states_after_verify

    def commit(worker, batch, accept_lens, **rest):
        state = pool.mamba_cache
        length = state.replayssm_d.shape[-2]
        for slot, count in zip(batch.req_pool_indices.tolist(), accept_lens.tolist(), strict=True):
            held = int(pool.replayssm_spec_write_pos[slot]) + count
            rows = (int(pool.replayssm_cache_base[slot]) + torch.arange(held, length)) % length
            for ring in (state.replayssm_d, state.replayssm_k, state.replayssm_g):
                ring[:, slot][:, :, rows] = value
        right(worker, batch, accept_lens=accept_lens, **rest)

    with mock.patch.object(spec_utils, "commit_mamba_states_after_verify", commit):
        yield
