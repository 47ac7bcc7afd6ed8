"""A prefill round: SGLang's own, with this plugin's count of emitted tokens in place of its penalisers' state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch


def prefill_round(worker: Any, batch: Any, run: Callable[..., Any], on_publish: Any, grammar_barrier: Any) -> Any:
    """Run the base worker's prefill, and keep the counts of penalised requests."""
    tracker = worker.penalties
    penalties = None if batch.forward_mode.is_idle() else tracker.of(batch, pending=0)
    if penalties is None:
        return run(batch, on_publish, grammar_barrier)
    tracker.restart(batch)
    penalties = tracker.of(batch, pending=0)
    kept = batch.sampling_info
    additive = -penalties.additive(penalties.counts)
    if penalties.stops is not None:
        additive += torch.where(penalties.missing[:, None] > 0, penalties.stops, 0.0)
    batch.sampling_info = dataclasses.replace(
        kept,
        penalizer_orchestrator=None,
        acc_additive_penalties=additive,
        acc_scaling_penalties=penalties.scaling(penalties.counts),
    )
    try:
        result = run(batch, on_publish, grammar_barrier)
    finally:
        batch.sampling_info = kept
    one = torch.ones_like(batch.req_pool_indices)
    tracker.emitted(batch, result.next_token_ids.view(-1, 1), one)
    return result
