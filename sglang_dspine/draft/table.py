"""The transition table's constants: S[i, p, j] scores candidate j of row i after predecessor candidate p.

Low-rank form (dspine-spec, "Low-rank form"); the arithmetic is in `kernels/table_walk`. Where the head is spread over
ranks, each scores the rows it has (`kernels/head_share`) and one sum makes the whole; all ranks then walk alike.
"""

from __future__ import annotations

import logging

import torch

from ..kernels.head_share import head_share
from ..kernels.switch import use_kernels
from ..kernels.table_walk import table_walk
from ..kernels.table_walk.parts import Draw, Given, Prepared, Proposal, TableWeights
from ..model.bridge import Bridge
from .head import TargetHead

logger = logging.getLogger(__name__)


class TransitionTable:
    """Holds what is constant: W_L, its Gram matrix, the final norm, and on a GPU U = W_L^T (w * head[v]) of every v
    that this rank owns."""

    def __init__(self, bridge: Bridge, norm_weight: torch.Tensor, eps: float, head: TargetHead) -> None:
        self.bridge, self.norm_weight, self.eps, self.head = bridge, norm_weight, eps, head
        self.prepare()

    def prepare(self) -> None:
        """Compute the constants; again whenever the drafter's weights have changed."""
        write = self.bridge.writes[-1]  # W_L [H, m]
        self.gram = gram = (write.float().T @ write.float()).contiguous()  # [m, m]
        self.weights = TableWeights(
            write, gram, self.norm_weight, self.bridge.token_gate, self.bridge.token_message, self.eps
        )
        self.prepared: Prepared | None = None
        if use_kernels(write):
            self.prepared = Prepared(gram.to(write.dtype), self._seen(write))
            logger.info("DSPINE: head seen through W_L, %.2f GB", self.prepared.seen.nbytes / 1e9)

    @torch.no_grad()
    def _seen(self, write: torch.Tensor, chunk: int = 8192) -> torch.Tensor:
        """U [V/tp, m]: what the table needs of a head row beside its own dot with x."""
        vocab = self.head.local_vocab
        seen = torch.empty(vocab, write.shape[1], dtype=write.dtype, device=write.device)
        for start in range(0, vocab, chunk):
            ids = torch.arange(start, min(start + chunk, vocab), device=write.device)
            seen[start : start + chunk] = (self.head.rows(ids).to(write.dtype) * self.norm_weight) @ write
        return seen

    def __call__(
        self,
        before: torch.Tensor,
        receive: torch.Tensor,
        candidates: torch.Tensor,
        anchor: torch.Tensor,
        draw: Draw,
        proposal: Proposal,
    ) -> torch.Tensor:
        """Fill `proposal`; returns the scores [N, R, K (predecessor), K (candidate)] in fp32, all finite.

        before [N, w, H] last layer's residual stream before injection; receive [N, R, m]; candidates [N, R, K].
        """
        return table_walk(
            before, receive, candidates, anchor, self.weights, self.head.rows, draw, proposal, self.prepared,
            self.head.stored, self._given(before[:, 1:], candidates),
        )  # fmt: skip

    def _given(self, x: torch.Tensor, candidates: torch.Tensor) -> Given | None:
        """The head's part of the table, summed over ranks; None where one rank has the whole head."""
        head = self.head
        if head.ranks is None:
            return None
        share = head_share(
            x, candidates, self.weights, head.rows, head.start, head.local_vocab, self.prepared, head.stored
        )
        return share.given(head.ranks.total(share.payload))
