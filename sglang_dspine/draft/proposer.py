"""The tail of a draft forward: candidates, table and walk, into buffers of fixed address.

Runs inside the captured draft graph; sampling parameters are staged before a replay and results read after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..config import DraftConfig
from ..kernels.table_walk.parts import Draw, Proposal
from .table import TransitionTable

MIN_TEMPERATURE = 1e-5  # a sampled request this cold is a greedy one up to fp32


class Proposer:
    """Proposal of the last draft forward: `tokens`, `candidates`, `q` (rows beyond the batch are stale)."""

    def __init__(
        self,
        config: DraftConfig,
        table: TransitionTable,
        max_batch: int,
        agree: Callable[[torch.Tensor], object] | None = None,
    ) -> None:
        """agree: makes tokens [N, R] the same on every rank, in place."""
        self.agree = agree
        self.table, self.head, self.top_k = table, table.head, config.top_k
        device, rows = table.norm_weight.device, config.num_proposals
        self.temperatures = torch.ones(max_batch, dtype=torch.float32, device=device)
        self.greedy = torch.ones(max_batch, dtype=torch.bool, device=device)
        self.uniforms = torch.zeros(max_batch, rows, dtype=torch.float32, device=device)
        self.tokens = torch.zeros(max_batch, rows, dtype=torch.int64, device=device)
        self.candidates = torch.zeros(max_batch, rows, self.top_k, dtype=torch.int64, device=device)
        self.q = torch.zeros(max_batch, rows, self.top_k, dtype=torch.float32, device=device)
        self.scores: torch.Tensor | None = None  # table of the last eager forward, for tests and tools

    def stage(self, batch_size: int, sampling_info: Any) -> None:
        """Set temperatures and greedy flags of the coming batch; all greedy without sampling info."""
        if sampling_info is None or sampling_info.is_all_greedy:
            self.greedy[:batch_size].fill_(True)
            self.temperatures[:batch_size].fill_(1.0)
            return
        self.greedy[:batch_size].copy_(sampling_info.top_ks.view(-1)[:batch_size] <= 1)
        self.temperatures[:batch_size].copy_(
            sampling_info.temperatures.view(-1)[:batch_size].float().clamp_min(MIN_TEMPERATURE)
        )

    def __call__(self, u: torch.Tensor, before: torch.Tensor, receive: torch.Tensor, anchor: torch.Tensor) -> None:
        """u [N, R, H]; before [N, R+1, H]; receive [N, R, m]; anchor [N]. R: rows of this forward but the anchor's."""
        n, rows, hidden = u.shape
        candidates = self.head.top_k(u.reshape(-1, hidden), self.top_k).view(n, rows, self.top_k)
        self.uniforms[:n, :rows].uniform_()  # in the graph: every replay advances the generator
        draw = Draw(self.temperatures, self.greedy, self.uniforms)
        proposal = Proposal(self.tokens, self.candidates, self.q)
        self.scores = self.table(before, receive, candidates, anchor, draw, proposal)
        if self.agree is not None:
            self.agree(self.tokens[:n])  # whole rows: contiguous, whatever the width
