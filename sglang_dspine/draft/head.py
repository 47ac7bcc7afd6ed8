"""The target's output head, as the drafter borrows it: coarse logits for candidates, exact rows for scores.

N rows of H numbers; K candidates a row; the head may be padded to a multiple of 64 rows and split over TP ranks.
"""

from __future__ import annotations

import logging
from typing import Any

import torch

from ..errors import DSpineError
from ..kernels.head_rows.form import StoredHead
from ..kernels.top_k import top_k

logger = logging.getLogger(__name__)


class TargetHead:
    """Dense or quantised `lm_head` of the target.

    A quantised head proposes candidates through its own kernel. Their scores need rows as numbers: those are
    dequantised once, when the worker is made and before SGLang sizes its KV pool by the memory left over (report 5).

    Raises:
        DSpineError: a head whose rows cannot be read (report 4): refused at start, not at the first request.
    """

    def __init__(self, lm_head: Any, vocab_size: int, hidden_size: int = 0, dtype: torch.dtype | None = None) -> None:
        """hidden_size, dtype: of the dequantised rows; a dense head needs neither."""
        from sglang.srt.layers.logits_processor import should_apply_lm_head_quant_method
        from sglang.srt.runtime_context import get_parallel
        from sglang.srt.speculative.dflash_utils import is_dense_head_weight

        self.lm_head = lm_head
        self.tp_size = int(get_parallel().tp_size)
        shard = getattr(lm_head, "shard_indices", None)
        self.start = int(shard.org_vocab_start_index) if shard is not None else 0
        local = int(shard.num_org_elements) if shard is not None else int(lm_head.weight.shape[0])
        self.local_vocab = max(0, min(local, vocab_size - self.start))  # padding and added rows never win (report 37)
        method = getattr(lm_head, "quant_method", None)
        self.quantised = should_apply_lm_head_quant_method(lm_head, method)
        self.copy: torch.Tensor | None = None
        if self.quantised:
            self.copy = self._dequantise(hidden_size, dtype or torch.bfloat16)
        elif not is_dense_head_weight(getattr(lm_head, "weight", None)):
            raise DSpineError(
                f"the target's lm_head ({type(method).__name__}) holds neither dense BF16/FP16/FP32 rows nor a "
                "quantisation SGLang can multiply by; serve a target with another lm_head"
            )

    @property
    def weight(self) -> torch.Tensor:
        """Rows of the real vocabulary on this rank. [V/tp, H]"""
        return self.copy if self.copy is not None else self.lm_head.weight[: self.local_vocab]

    @property
    def stored(self) -> StoredHead | None:
        """The head as a kernel reads it; None when its rows are spread over ranks."""
        return StoredHead(self.weight) if self.tp_size == 1 else None

    def _dequantise(self, hidden_size: int, dtype: torch.dtype, chunk: int = 256) -> torch.Tensor:
        """The head times the identity: exact whatever the format, since 1 and 0 survive any quantisation."""
        device = self.lm_head.weight.device
        rows = torch.empty(self.local_vocab, hidden_size, dtype=dtype, device=device)
        logger.info("DSPINE: quantised lm_head, %.2f GB of rows kept for scores", rows.nbytes / 1e9)
        for start in range(0, hidden_size, chunk):
            unit = torch.eye(hidden_size, dtype=dtype, device=device)[start : start + chunk]
            rows[:, start : start + chunk] = self._quantised_logits(unit).T
        return rows

    def _quantised_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.lm_head.quant_method.apply(self.lm_head, hidden, None)[:, : self.local_vocab]

    def top_k(self, hidden: torch.Tensor, k: int) -> torch.Tensor:
        """Ids of the K best tokens of each row, best first. [N, H] -> [N, K] int64"""
        logits = self._quantised_logits(hidden) if self.quantised else hidden.to(self.weight.dtype) @ self.weight.T
        values, ids = top_k(logits, self.local_vocab, k)
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
