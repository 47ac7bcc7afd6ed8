"""Run the target over the block once: logits and taps of every row."""

from __future__ import annotations

from typing import Any

import torch

from ..draft.block import Block
from ..draft.forward import host_lengths


def verify_forward(worker: Any, batch: Any, draft_input: Any, block: Block, tokens: torch.Tensor) -> Any:
    """Target forward over `tokens` [N, w] (anchor and proposals).

    Returns SGLang's batch result; its logits are [N*w, V] and its hidden_states the concatenated taps.
    """
    from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode
    from sglang.srt.speculative.dflash_info import DFlashVerifyInput

    target = worker.target_worker
    verify_input = DFlashVerifyInput(
        draft_token=tokens.reshape(-1),
        positions=block.positions.flatten(),
        draft_token_num=block.width,
        custom_mask=None,
        capture_hidden_mode=CaptureHiddenMode.FULL,
        kv_loc_plan=block.plan,
    )
    batch.out_cache_loc = block.cache_loc.flatten()
    kept = batch.seq_lens_cpu, batch.seq_lens_sum
    if kept[0] is not None or draft_input.nxt_kv_lens_cpu is not None:
        batch.seq_lens_cpu = host_lengths(batch, draft_input, block.width)
        batch.seq_lens_sum = int(batch.seq_lens_cpu.sum())
    forward_batch, _ = verify_input.prepare_for_verify(batch, target)
    batch.seq_lens_cpu, batch.seq_lens_sum = kept
    result = target.forward_batch_generation(
        batch=None, forward_batch=forward_batch, is_verify=True, skip_attn_backend_init=True
    )
    _gather_deferred(worker, result.logits_output)
    return result


def _gather_deferred(worker: Any, logits_output: Any) -> None:
    """Under TP the base worker lets the vocabulary gather wait; every later stage here reads whole rows."""
    processor = worker._target_logits_processor
    if processor is not None and processor.is_deferred_shard(logits_output.next_token_logits):
        logits_output.next_token_logits = processor.finish_deferred_gather(logits_output.next_token_logits)
