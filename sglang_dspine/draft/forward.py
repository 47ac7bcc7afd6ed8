"""Run the drafter over a block: one forward on SGLang's draft model runner, graph or eager."""

from __future__ import annotations

from typing import Any

import torch

from .block import Block


def draft_forward(worker: Any, batch: Any, draft_input: Any, block: Block, embeds: torch.Tensor) -> bool:
    """Draft `block`; the proposal is left in the draft model's proposer.

    Args:
        embeds: [N, w, H] from the target's embedding.
    Returns:
        Whether a captured graph ran.
    """
    return bool(run_draft(worker, batch, draft_input, block, embeds).can_run_graph)


def run_draft(worker: Any, batch: Any, draft_input: Any, block: Block, embeds: torch.Tensor) -> Any:
    """The same; returns the model runner's output, with hidden states [N*w, H] after the final norm."""
    from sglang.srt.model_executor.forward_batch_info import (
        CaptureHiddenMode,
        ForwardBatch,
        ForwardMode,
        enable_num_token_non_padded,
    )
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
    from sglang.srt.speculative.spec_utils import draft_tp_context

    runner, n, w = worker.draft_model_runner, block.ids.shape[0], block.width
    seq_lens, seq_lens_cpu, seq_lens_sum = _lengths(worker, batch, draft_input, block)
    tokens = n * w
    count = (
        torch.full((), tokens, dtype=torch.int32, device=block.ids.device) if enable_num_token_non_padded() else None
    )
    forward_batch = ForwardBatch(
        forward_mode=ForwardMode.TARGET_VERIFY,
        batch_size=n,
        input_ids=block.ids.flatten(),
        req_pool_indices=batch.req_pool_indices,
        seq_lens=seq_lens,
        out_cache_loc=block.cache_loc.flatten(),
        seq_lens_sum=seq_lens_sum,
        seq_lens_cpu=seq_lens_cpu,
        positions=block.positions.flatten(),
        input_embeds=embeds.reshape(tokens, -1),
        spec_algorithm=SpeculativeAlgorithm.DFLASH,
        spec_info=worker.draft_spec_info(w),
        capture_hidden_mode=CaptureHiddenMode.NULL,
        num_token_non_padded=count,
        global_num_token_non_padded_cpu=tokens,
        can_run_decode_cuda_graph=batch.can_run_decode_cuda_graph,
    )
    translator, plan = runner.kv_index_translator, block.plan
    if worker.use_compact_draft_cache:
        plan = plan.reads_from(translator, seq_lens=seq_lens, seq_lens_cpu=seq_lens_cpu, read_extent=w)
    plan.bind(forward_batch, translator)
    with torch.inference_mode(), draft_tp_context(worker.draft_parallel_layout):
        return runner.forward(forward_batch)


def _lengths(worker: Any, batch: Any, draft_input: Any, block: Block) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Draft context lengths on the device, and a host upper bound of them for planning (no device sync)."""
    n, w = block.ids.shape
    host = torch.empty(n, dtype=torch.int32)
    if worker.use_compact_draft_cache:  # --speculative-draft-window-size: a private table of the recent window
        lens = worker._compute_compact_draft_seq_lens(block.prefix_lens)
        worker._fill_compact_seq_lens_cpu_bound(
            batch_seq_lens_cpu=batch.seq_lens_cpu, nxt_kv_lens_cpu=draft_input.nxt_kv_lens_cpu, out=host
        )
        worker._ensure_draft_block_buffers(n)  # the rebuild without Triton counts in one of them
        worker._rebuild_compact_draft_cache(
            req_pool_indices=batch.req_pool_indices,
            prefix_lens=block.prefix_lens,
            draft_prefix_lens=lens,
            verify_out_cache_loc_2d=block.cache_loc,
            bs=n,
            block_size=w,
        )
        return lens, host, int(host.sum())
    host.copy_(host_lengths(batch, draft_input, w))
    return block.prefix_lens, host, int(host.sum())


def host_lengths(batch: Any, draft_input: Any, width: int) -> torch.Tensor:
    """Host-side upper bound of committed length plus one block. [N]"""
    if batch.seq_lens_cpu is not None:
        return batch.seq_lens_cpu + width
    if draft_input.nxt_kv_lens_cpu is not None:  # reserved lengths: an over-estimate, which planning allows
        return draft_input.nxt_kv_lens_cpu
    return torch.tensor([req.kv.kv_allocated_len for req in batch.reqs])
