"""The block a round drafts and verifies: ids, positions and KV slots of the anchor and its mask rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class Block:
    """N requests, w rows each."""

    width: int
    prefix_lens: torch.Tensor  # [N] committed positions before the anchor
    ids: torch.Tensor  # [N, w] anchor, then the mask token
    positions: torch.Tensor  # [N, w] prefix_len .. prefix_len + w - 1
    cache_loc: torch.Tensor  # [N, w] KV slots, reserved by the scheduler
    plan: Any  # SGLang's KVLocPlan for these slots

    @property
    def anchor(self) -> torch.Tensor:
        return self.ids[:, 0]


def prepare_block(batch: Any, draft_input: Any, model_runner: Any, width: int, mask_token_id: int) -> Block:
    """Lay out the block behind each request's committed prefix. Row 0 embeds the anchor, never the mask (report 11)."""
    from sglang.kernels.ops.speculative.cache_locs import assign_extend_cache_locs_func

    n, prefix_lens = len(batch.seq_lens), batch.seq_lens
    device = prefix_lens.device
    ids = torch.full((n, width), mask_token_id, dtype=torch.int64, device=device)
    ids[:, 0] = draft_input.bonus_tokens
    positions = prefix_lens[:, None].to(torch.int64) + torch.arange(width, device=device)
    cache_loc = assign_extend_cache_locs_func(
        req_pool_indices=batch.req_pool_indices,
        req_to_token=model_runner.req_to_token_pool.req_to_token,
        start_offset=prefix_lens,
        end_offset=prefix_lens + width,
        batch_size=n,
        draft_token_num=width,
        device=device,
    ).to(torch.int64)
    plan = model_runner.kv_index_translator.plan(
        req_pool_indices=batch.req_pool_indices,
        seq_lens=prefix_lens,
        seq_lens_cpu=batch.seq_lens_cpu if batch.seq_lens_cpu is not None else draft_input.nxt_kv_lens_cpu,
        write_virtual=cache_loc,
        read_extent=width,
    )
    return Block(width, prefix_lens, ids, positions, cache_loc.view(n, width), plan)
