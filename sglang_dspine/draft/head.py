"""The target's output head, as the drafter borrows it: coarse logits for candidates, exact rows for scores.

N rows of H numbers; K candidates a row; the head may be padded to a multiple of 64 rows and split over TP ranks, each
of which reads only its own rows (`ranks`).
"""

from __future__ import annotations

import logging
from typing import Any

import torch

from ..errors import DSpineError
from ..kernels.head_rows.form import StoredHead
from ..kernels.top_k import top_k
from .head_form import quantised_form
from .ranks import best_of_ranks, served_ranks

logger = logging.getLogger(__name__)

MAX_ERROR = 0.02  # of a stored form's rows against the head's own product, whose activations may be quantised
PROBED = 16  # columns of every row that are compared


class TargetHead:
    """Dense or quantised `lm_head` of the target.

    A quantised head proposes candidates through its own kernel. Their scores need rows as numbers: dequantised row by
    row from a stored form that is known, else from a copy of the whole head, made when the worker is made and before
    SGLang sizes its KV pool by the memory left over (report 5).

    Raises:
        DSpineError: a head whose rows cannot be read (report 4): refused at start, not at the first request.
    """

    def __init__(self, lm_head: Any, vocab_size: int, hidden_size: int = 0, dtype: torch.dtype | None = None) -> None:
        """hidden_size, dtype: of the dequantised rows; a dense head needs neither."""
        from sglang.srt.layers.logits_processor import should_apply_lm_head_quant_method
        from sglang.srt.speculative.dflash_utils import is_dense_head_weight

        self.lm_head = lm_head
        self.ranks = served_ranks()
        shard = getattr(lm_head, "shard_indices", None)
        self.start = int(shard.org_vocab_start_index) if shard is not None else 0
        local = int(shard.num_org_elements) if shard is not None else int(lm_head.weight.shape[0])
        self.local_vocab = max(0, min(local, vocab_size - self.start))  # padding and added rows never win (report 37)
        method = getattr(lm_head, "quant_method", None)
        self.quantised = should_apply_lm_head_quant_method(lm_head, method)
        self.dtype, self.copy = dtype or torch.bfloat16, None
        self._form: StoredHead | None = None
        if self.quantised:
            self._form = self._known_form(hidden_size)
            self.copy = None if self._form is not None else self._dequantise(hidden_size)
        elif not is_dense_head_weight(getattr(lm_head, "weight", None)):
            raise DSpineError(
                f"the target's lm_head ({type(method).__name__}) holds neither dense BF16/FP16/FP32 rows nor a "
                "quantisation SGLang can multiply by; serve a target with another lm_head"
            )
        else:
            logger.info("DSPINE: rows are read in the target's lm_head; %.2f GB saved", self.weight.nbytes / 1e9)

    @property
    def weight(self) -> torch.Tensor:
        """Rows of the real vocabulary on this rank, of a head that has them as numbers. [V/tp, H]"""
        return self.copy if self.copy is not None else self.lm_head.weight[: self.local_vocab]

    @property
    def stored(self) -> StoredHead:
        """This rank's rows of the head, as a kernel reads them."""
        return self._form if self._form is not None else StoredHead(self.weight, self.weight.shape[1])

    @torch.no_grad()
    def _known_form(self, hidden_size: int) -> StoredHead | None:
        """The stored form, if it is known and yields what the head's own product yields for unit vectors."""
        form = quantised_form(self.lm_head, hidden_size)
        full = self.local_vocab * hidden_size * self.dtype.itemsize / 1e9
        if form is None:
            logger.warning("DSPINE: lm_head in a layout unknown here; %.2f GB of rows kept for scores", full)
            return None
        # up to a factor: a static scale of the activations need not represent 1 exactly
        probe = torch.eye(hidden_size, dtype=self.dtype, device=form.weight.device)[:: max(1, hidden_size // PROBED)]
        product = self._quantised_logits(probe).float()  # [P, V]
        columns = probe.argmax(-1)
        chunks = torch.arange(self.local_vocab, device=probe.device).split(8192)
        ours = torch.cat([form.rows(ids, self.dtype)[:, columns].float() for ids in chunks]).T
        factor = (product * ours).sum() / ours.square().sum().clamp_min(1e-30)
        error = float((product - factor * ours).norm() / product.norm().clamp_min(1e-30))
        if not error <= MAX_ERROR:
            logger.warning("DSPINE: lm_head rows differ from its product by %.3f; %.2f GB of rows kept", error, full)
            return None
        logger.info("DSPINE: lm_head rows are dequantised as they are needed; %.2f GB saved", full)
        return form

    def _dequantise(self, hidden_size: int, chunk: int = 256) -> torch.Tensor:
        """The head times the identity, whatever the format."""
        device = self.lm_head.weight.device
        rows = torch.empty(self.local_vocab, hidden_size, dtype=self.dtype, device=device)
        for start in range(0, hidden_size, chunk):
            unit = torch.eye(hidden_size, dtype=self.dtype, device=device)[start : start + chunk]
            rows[:, start : start + chunk] = self._quantised_logits(unit).T
        return rows

    def _quantised_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.lm_head.quant_method.apply(self.lm_head, hidden, None)[:, : self.local_vocab]

    def top_k(self, hidden: torch.Tensor, k: int) -> torch.Tensor:
        """Ids of the K best tokens of each row, best first, the same on every rank. [N, H] -> [N, K] int64"""
        logits = self._quantised_logits(hidden) if self.quantised else hidden.to(self.weight.dtype) @ self.weight.T
        if self.ranks is None:
            return top_k(logits, self.local_vocab, k)[1]
        here = min(k, self.local_vocab)
        values, ids = top_k(logits, self.local_vocab, here) if here else (logits[:, :0], logits[:, :0])
        return best_of_ranks(values, ids + self.start, k, self.ranks)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Head rows of this rank's tokens, counted from `start`. [...] -> [..., H]"""
        return self._form.rows(ids, self.dtype) if self._form is not None else self.weight[ids]
