"""Frequency, presence and repetition penalties, and the minimum length, exact inside a block (report 20).

SGLang 0.5.23 feeds its penalisers one token a step, and its DFLASH verify reads a field that no longer exists, so under
speculation most penalties are lost. Here each request's output tokens are counted on the device as rounds commit them,
and a verify row also counts the proposals before it: slot j's logits include slots before j. What is penalised is what
plain decode penalises: every output token so far, additive penalties first, then the repetition factor.

Shapes: N requests, w verify rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class Penalties:
    """Settings of a batch and what its requests have emitted."""

    frequency: torch.Tensor  # [N, 1] fp32
    presence: torch.Tensor  # [N, 1]
    repetition: torch.Tensor  # [N, 1], 1 for none
    counts: torch.Tensor  # [N, V] fp32 output tokens so far
    missing: torch.Tensor  # [N] int64 tokens still to come before a stop token may
    stops: torch.Tensor  # [N, V] fp32, -inf at stop ids of requests with a minimum length, else 0

    def additive(self, counts: torch.Tensor) -> torch.Tensor:
        """What is subtracted at these counts. [N, ...] -> same shape"""
        shape = (-1,) + (1,) * (counts.dim() - 1)
        return self.frequency.view(shape) * counts + self.presence.view(shape) * (counts > 0)

    def scaling(self, counts: torch.Tensor) -> torch.Tensor:
        factor = self.repetition.view((-1,) + (1,) * (counts.dim() - 1))
        return torch.where(counts > 0, factor, torch.ones_like(counts))


def penalise_block(logits: torch.Tensor, block: torch.Tensor, p: Penalties) -> None:
    """Penalise the rows of a verify, in place.

    Args:
        logits: [N, w, V]; row i follows block token i.
        block: [N, w] anchor and proposals. The anchor is an output token already counted.
    """
    w = block.shape[1]
    proposals = block[:, 1:]  # [N, w-1]
    at = proposals[:, None].expand(-1, w, -1)  # [N, w, w-1] where row i might see a count of its own
    raw = logits.gather(2, at).float()
    seen = torch.ones(w, w - 1, device=logits.device).tril(-1)  # row i has proposals 1..i before it
    same = (proposals[:, :, None] == proposals[:, None]).float()  # [N, w-1, w-1]
    counts = p.counts.gather(1, proposals)[:, None] + seen @ same  # [N, w, w-1]
    logits.copy_(_apply(logits.float(), p.additive(p.counts)[:, None], p.scaling(p.counts)[:, None]))
    # duplicates of a proposal write the same value: the count depends on the token and the row alone
    logits.scatter_(2, at, _apply(raw, p.additive(counts), p.scaling(counts)).to(logits.dtype))
    early = torch.arange(w, device=logits.device)[None] < p.missing[:, None]  # [N, w]
    logits.add_(torch.where(early[..., None], p.stops[:, None], 0.0).to(logits.dtype))


def _apply(logits: torch.Tensor, additive: torch.Tensor, scaling: torch.Tensor) -> torch.Tensor:
    logits = logits - additive
    return torch.where(logits < 0, logits * scaling, logits / scaling)


class PenaltyTracker:
    """Counts of emitted tokens, one row a request slot, kept only while somebody penalises."""

    def __init__(self, slots: int, vocab: int, device: Any) -> None:
        self.shape, self.device = (slots, vocab), device
        self.counts: torch.Tensor | None = None  # [slots, V] fp32

    def of(self, batch: Any, pending: int = 1) -> Penalties | None:
        """Penalties of a batch, or None when no request asks for any. `pending`: emitted tokens that `seq_lens` does
        not count yet; a decode round's anchor is one, a prefill has none."""
        asked = [req.sampling_params for req in batch.reqs]
        if not any(map(_penalises, asked)):
            return None
        if self.counts is None:
            self.counts = torch.zeros(self.shape, dtype=torch.float32, device=self.device)
        column = lambda values: torch.tensor(values, dtype=torch.float32).to(self.device)[:, None]  # noqa: E731
        return Penalties(
            frequency=column([s.frequency_penalty for s in asked]),
            presence=column([s.presence_penalty for s in asked]),
            repetition=column([s.repetition_penalty for s in asked]),
            counts=self.counts[batch.req_pool_indices.long()],
            missing=torch.tensor([s.min_new_tokens for s in asked]).to(self.device) - self._emitted(batch, pending),
            stops=_stop_rows(batch.reqs, self.shape[1]).to(self.device),
        )

    def restart(self, batch: Any) -> None:
        """Recount the requests of a prefill from what they have emitted: new ones have nothing, retracted ones do.
        Running requests that a mixed batch carries along keep their counts."""
        running = {id(req) for req in batch.decoding_reqs or ()}
        for slot, req in zip(batch.req_pool_indices.tolist(), batch.reqs, strict=True):
            if self.counts is not None and id(req) not in running:
                emitted = torch.tensor(list(req.output_ids), dtype=torch.int64)
                self.counts[slot] = torch.bincount(emitted, minlength=self.shape[1]).to(self.counts)

    def emitted(self, batch: Any, tokens: torch.Tensor, lengths: torch.Tensor) -> None:
        """Count committed tokens. tokens [N, w]; the first lengths[n] of a row are real."""
        if self.counts is None:
            return
        real = torch.arange(tokens.shape[1], device=tokens.device)[None] < lengths[:, None]
        slots = batch.req_pool_indices.long()[:, None].expand_as(tokens)
        self.counts.index_put_((slots, tokens.long()), real.to(self.counts.dtype), accumulate=True)

    def _emitted(self, batch: Any, pending: int) -> torch.Tensor:
        """Output tokens so far. [N]"""
        prompts = torch.tensor([len(req.origin_input_ids) for req in batch.reqs]).to(self.device)
        return batch.seq_lens + pending - prompts


def _penalises(s: Any) -> bool:
    return bool(s.frequency_penalty or s.presence_penalty or s.repetition_penalty != 1.0 or s.min_new_tokens)


def _stop_rows(reqs: Sequence[Any], vocab: int) -> torch.Tensor:
    rows = torch.zeros(len(reqs), vocab)
    for row, req in zip(rows, reqs, strict=True):
        if req.sampling_params.min_new_tokens:
            row[sorted(_stop_ids(req, vocab))] = float("-inf")
    return rows


def _stop_ids(req: Any, vocab: int) -> set[int]:
    """Ids that would end a request (sampling/penaltylib/min_new_tokens.py counts the same)."""
    ids = set(req.sampling_params.stop_token_ids or ()) | set(req.eos_token_ids or ())
    tokenizer = req.tokenizer
    if tokenizer is not None:
        ids |= set(getattr(tokenizer, "additional_stop_token_ids", None) or ())
        ids |= {tokenizer.eos_token_id}
    return {i for i in ids if i is not None and 0 <= i < vocab}
