"""Every decode round of a running DSPINE worker, as seen from outside: where it stood, what it proposed and kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from sglang_dspine.worker import dspine_worker


@dataclass(frozen=True)
class Drafted:
    """One round of one request; R proposals, K candidates a row."""

    rid: str
    length: int  # committed positions before the anchor
    anchor: int
    proposals: torch.Tensor  # int64 [R]
    candidates: torch.Tensor  # int64 [R, K]
    scores: torch.Tensor  # [R, K, K]
    q: torch.Tensor  # [R, K]
    temperature: float  # 0 for greedy
    accepted: int  # accepted length, bonus included
    batch: int


@dataclass
class RoundLog:
    rounds: dict[str, list[Drafted]] = field(default_factory=lambda: defaultdict(list))

    def of(self, rid: str) -> list[Drafted]:
        return self.rounds[rid]

    def __len__(self) -> int:
        return sum(map(len, self.rounds.values()))


@contextmanager
def logged_rounds() -> Iterator[RoundLog]:
    """Log the rounds of the engine of this process while the context lasts."""
    log, original = RoundLog(), dspine_worker.decode_round

    def decode_round(worker, batch, *rest):
        lengths, anchors = batch.seq_lens.tolist(), batch.spec_info.bonus_tokens.tolist()
        result = original(worker, batch, *rest)
        proposer, rows = worker.draft_model.proposer, worker.draft_model.width - 1
        drafted = (proposer.tokens[:, :rows], proposer.candidates[:, :rows], proposer.scores, proposer.q[:, :rows])
        for i, req in enumerate(batch.reqs):
            heat = 0.0 if bool(proposer.greedy[i]) else float(proposer.temperatures[i])
            parts = [t[i].clone() for t in drafted]
            log.rounds[req.rid].append(
                Drafted(req.rid, lengths[i], anchors[i], *parts, heat, int(result.accept_lens[i]), len(batch.reqs))
            )
        return result

    dspine_worker.decode_round = decode_round
    try:
        yield log
    finally:
        dspine_worker.decode_round = original
