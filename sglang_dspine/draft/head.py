"""The target's output head, as the drafter borrows it: coarse logits for candidates, exact rows for scores.

N rows of H numbers; K candidates a row; the head may be padded to a multiple of 64 rows and split over TP ranks.
"""

from __future__ import annotations

from typing import Any

import torch

from ..errors import DSpineError


class TargetHead:
    """Dense or quantised `lm_head` of the target.

    Raises:
        DSpineError: a head whose rows cannot be read (report 4): refused at start, not at the first request.
    """

    def __init__(self, lm_head: Any, vocab_size: int) -> None:
        from sglang.srt.layers.logits_processor import should_apply_lm_head_quant_method
        from sglang.srt.runtime_context import get_parallel
        from sglang.srt.speculative.dflash_utils import is_dense_head_weight

        self.lm_head = lm_head
        self.tp_size = int(get_parallel().tp_size)
        shard = getattr(lm_head, "shard_indices", None)
        self.start = int(shard.org_vocab_start_index) if shard is not None else 0
        local = int(shard.num_org_elements) if shard is not None else int(lm_head.weight.shape[0])
        self.local_vocab = max(0, min(local, vocab_size - self.start))  # padding and added rows never win (report 37)
        self.quantised = should_apply_lm_head_quant_method(lm_head, getattr(lm_head, "quant_method", None))
        self.dense = is_dense_head_weight(getattr(lm_head, "weight", None))
        if not self.dense:
            raise DSpineError(
                f"the target's lm_head ({type(getattr(lm_head, 'quant_method', None)).__name__}) holds no dense "
                "BF16/FP16/FP32 rows, which DSPINE scores its candidates with; serve a target whose lm_head is not "
                "quantised"
            )

    @property
    def weight(self) -> torch.Tensor:
        return self.lm_head.weight[: self.local_vocab]

    def top_k(self, hidden: torch.Tensor, k: int) -> torch.Tensor:
        """Ids of the K best tokens of each row, best first. [N, H] -> [N, K] int64"""
        logits = hidden.to(self.weight.dtype) @ self.weight.T  # [N, V/tp]
        values, ids = torch.topk(logits, k, dim=-1)
        if self.tp_size == 1:
            return ids
        from sglang.srt.distributed.communication_op import tensor_model_parallel_all_gather

        all_values = tensor_model_parallel_all_gather(values.float(), dim=-1)  # [N, tp*K]
        all_ids = tensor_model_parallel_all_gather(ids + self.start, dim=-1)
        return all_ids.gather(-1, torch.topk(all_values, k, dim=-1).indices)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Head rows of the given tokens. [...] -> [..., H]"""
        if self.tp_size == 1:
            return self.weight[ids]
        from sglang.srt.distributed.communication_op import tensor_model_parallel_all_reduce

        local = ids - self.start
        mine = (local >= 0) & (local < self.local_vocab)
        rows = self.weight[local.clamp(0, self.local_vocab - 1)] * mine[..., None]
        return tensor_model_parallel_all_reduce(rows)
