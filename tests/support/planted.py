"""How to make a running DSPINE server wrong: one injector for each fault of the protocol's list.

Each takes the engine and holds while its context lasts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch

from sglang_dspine.exactness.faults import injector

CAUGHT: dict[str, str] = {}  # fault -> what caught it, of this run; printed at its end


@contextmanager
def _steps_shifted(by: int) -> Iterator[None]:
    from sglang.srt.speculative import spec_utils

    right = spec_utils.commit_mamba_states_after_verify

    def commit(worker, batch, accept_lens, accept_index, draft_token_num, prepared_step_indices):
        steps, tracked = prepared_step_indices
        steps = (steps + by).clamp_max(accept_index.shape[1] - 1)
        right(
            worker,
            batch,
            accept_lens=accept_lens,
            accept_index=accept_index,
            draft_token_num=draft_token_num,
            prepared_step_indices=(steps, tracked),
        )

    with mock.patch.object(spec_utils, "commit_mamba_states_after_verify", commit):
        yield


@injector("state-one-early")
def state_one_early(engine: Any):
    return _steps_shifted(-1)


@injector("state-one-late")
def state_one_late(engine: Any):
    return _steps_shifted(1)


@injector("block-not-causal")
@contextmanager
def block_not_causal(engine: Any) -> Iterator[None]:
    from sglang.srt.layers.radix_attention import AttentionType

    attentions = [layer.self_attn.attn for layer in engine.draft_worker.draft_model.layers]
    kept = [attention.attn_type for attention in attentions]
    for attention in attentions:
        attention.attn_type = AttentionType.ENCODER_ONLY
    yield
    for attention, right in zip(attentions, kept, strict=True):
        attention.attn_type = right


@injector("anchor-masked")
def anchor_masked(engine: Any):
    worker = engine.draft_worker
    right = worker.embed

    def embed(ids: torch.Tensor) -> torch.Tensor:
        masked = ids.clone()
        masked[:, 0] = worker._mask_token_id
        return right(masked)

    return mock.patch.object(worker, "embed", embed)


@injector("taps-off-by-one")
@contextmanager
def taps_off_by_one(engine: Any) -> Iterator[None]:
    """The hybrid target marks the layers whose input is captured; each mark moves one layer down."""
    layers = engine.model_runner.model.model.layers
    kept = [getattr(layer, "_is_layer_to_capture", False) for layer in layers]
    for layer, mark in zip(layers, [*kept[1:], False], strict=True):
        layer._is_layer_to_capture = mark
    yield
    for layer, mark in zip(layers, kept, strict=True):
        layer._is_layer_to_capture = mark


@injector("positions-off-by-one")
def positions_off_by_one(engine: Any):
    from sglang_dspine.worker import round as module

    right = module.draft_forward

    def draft_forward(worker, batch, draft_input, block, *rest):
        return right(worker, batch, draft_input, dataclasses.replace(block, positions=block.positions + 1), *rest)

    return mock.patch.object(module, "draft_forward", draft_forward)


def _other_q(change: Callable[..., torch.Tensor]):
    """`change(q, draw)` is handed over instead of q; `draw(factor)` is the q at so many times the temperature."""
    from sglang_dspine.draft.proposer import Proposer

    right = Proposer.__call__

    def propose(self, u, *rest):
        right(self, u, *rest)
        q = self.q[: u.shape[0], : u.shape[1]]
        drawn = q.clone()

        def at(factor: float) -> torch.Tensor:
            warmer = drawn.clamp_min(torch.finfo(q.dtype).tiny).pow(1 / factor)
            return warmer / warmer.sum(-1, keepdim=True)

        q.copy_(change(drawn, at))

    return mock.patch.object(Proposer, "__call__", propose)


@injector("q-of-another-temperature")
def q_of_another_temperature(engine: Any):
    return _other_q(lambda q, at: at(1.1))


@injector("q-swapped")
def q_swapped(engine: Any):
    return _other_q(lambda q, at: torch.cat([q[..., 1:2], q[..., :1], q[..., 2:]], -1))


@injector("bonus-of-wrong-row")
def bonus_of_wrong_row(engine: Any):
    from sglang_dspine.verify import decide as module

    def accept_greedy(block, top1, right=module.accept_greedy):
        accepted, _ = right(block, top1)
        return accepted, top1.gather(1, (accepted - 1).clamp_min(0)[:, None])[:, 0]

    return mock.patch.object(module, "accept_greedy", accept_greedy)


@injector("rejected-draft-kv-kept")
def rejected_draft_kv_kept(engine: Any):
    """The slot behind the accepted run keeps what the rejected proposal left there; the next anchor is not written."""
    worker, kept = engine.draft_worker, {}
    right = worker._append_target_hidden_to_draft_kv_by_loc

    def append(target_hidden, commit_lens=None, cache_loc_2d=None, **rest):
        if commit_lens is not None:
            rows = target_hidden.view(*cache_loc_2d.shape, -1).clone()
            for i, (slots, length) in enumerate(zip(cache_loc_2d.tolist(), commit_lens.tolist(), strict=True)):
                rejected = rows[i, length].clone() if length < len(slots) else None
                rows[i, 0] = kept.pop(slots[0], rows[i, 0])
                if rejected is not None:
                    kept[slots[length]] = rejected
            target_hidden = rows.view_as(target_hidden)
        right(target_hidden=target_hidden, commit_lens=commit_lens, cache_loc_2d=cache_loc_2d, **rest)

    return mock.patch.object(worker, "_append_target_hidden_to_draft_kv_by_loc", append)
