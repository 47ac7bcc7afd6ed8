"""Frequency, presence and repetition penalties, and the minimum length, exact inside a block (report 20).

SGLang 0.5.23 feeds its penalisers one token a step, and its DFLASH verify reads a field that no longer exists, so under
speculation most penalties are lost. Here each request's output tokens are counted on the device as rounds commit them,
and a verify row also counts the proposals before it: slot j's logits include slots before j. What is penalised is what
plain decode penalises: every output token so far, additive penalties first, then the repetition factor.

Shapes: N requests, w verify rows, V vocabulary.
"""

from __future__ import annotations

import operator
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
    stops: torch.Tensor | None  # [N, V] fp32, -inf at stop ids of requests with a minimum length, else 0; None: no such

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
    if p.stops is None:
        return
    early = torch.arange(w, device=logits.device)[None] < p.missing[:, None]  # [N, w]
    logits.add_(torch.where(early[..., None], p.stops[:, None], 0.0).to(logits.dtype))


def _apply(logits: torch.Tensor, additive: torch.Tensor, scaling: torch.Tensor) -> torch.Tensor:
    logits = logits - additive
    return torch.where(logits < 0, logits * scaling, logits / scaling)


class Asked:
    """What the requests of one batch ask for, on the device. Made once and kept for as long as the batch is the same:
    a copy of unpinned memory would wait, in every round, for the verify that is under way."""

    def __init__(self, reqs: Sequence[Any], vocab: int, device: Any) -> None:
        self._reqs, self._prompts = tuple(reqs), _prompt_lengths(reqs)
        asked = [req.sampling_params for req in reqs]
        factors = [[getattr(s, f"{name}_penalty") for s in asked] for name in ("frequency", "presence", "repetition")]
        self.frequency, self.presence, self.repetition = _upload(factors, torch.float32, device)[..., None]  # [N, 1]
        lengths = [[s.min_new_tokens for s in asked], self._prompts]
        self.minimum, self.prompts = _upload(lengths, torch.int64, device)  # [N]
        self.stops: torch.Tensor | None = None  # [N, V], see Penalties
        if any(s.min_new_tokens for s in asked):
            at = [(i, stop) for i, req in enumerate(reqs) for stop in _early_stops(req, vocab)]
            rows, ids = _upload([list(side) for side in zip(*at, strict=True)] or [[], []], torch.int64, device)
            self.stops = torch.zeros(len(reqs), vocab, device=device)
            self.stops[rows, ids] = float("-inf")

    def fits(self, reqs: Sequence[Any]) -> bool:
        """Whether these are the same requests, in the same order, with the prompts they had."""
        same = len(reqs) == len(self._reqs) and all(map(operator.is_, reqs, self._reqs))
        return same and self._prompts == _prompt_lengths(reqs)


class PenaltyTracker:
    """Counts of emitted tokens, one row a request slot, kept only while somebody penalises."""

    def __init__(self, slots: int, vocab: int, device: Any) -> None:
        self.shape, self.device = (slots, vocab), device
        self.counts: torch.Tensor | None = None  # [slots, V] fp32
        self._asked: Asked | None = None

    def of(self, batch: Any, pending: int = 1) -> Penalties | None:
        """Penalties of a batch, or None when no request asks for any. `pending`: emitted tokens that `seq_lens` does
        not count yet; a decode round's anchor is one, a prefill has none."""
        if not any(_penalises(req.sampling_params) for req in batch.reqs):
            return None
        if self.counts is None:
            self.counts = torch.zeros(self.shape, dtype=torch.float32, device=self.device)
        if self._asked is None or not self._asked.fits(batch.reqs):
            self._asked = Asked(batch.reqs, self.shape[1], self.device)
        asked = self._asked
        counts, emitted = self.counts[batch.req_pool_indices.long()], batch.seq_lens + pending - asked.prompts
        missing = asked.minimum - emitted
        return Penalties(asked.frequency, asked.presence, asked.repetition, counts, missing, asked.stops)

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


def _penalises(s: Any) -> bool:
    return bool(s.frequency_penalty or s.presence_penalty or s.repetition_penalty != 1.0 or s.min_new_tokens)


def _prompt_lengths(reqs: Sequence[Any]) -> list[int]:
    return [len(req.origin_input_ids) for req in reqs]


def _upload(values: Any, dtype: torch.dtype, device: Any) -> torch.Tensor:
    """Without waiting for the device; PyTorch keeps pinned memory until the copy has been made."""
    pinned = torch.device(device).type == "cuda"
    return torch.tensor(values, dtype=dtype, pin_memory=pinned).to(device, non_blocking=True)


def _early_stops(req: Any, vocab: int) -> list[int]:
    return sorted(_stop_ids(req, vocab)) if req.sampling_params.min_new_tokens else []


def _stop_ids(req: Any, vocab: int) -> set[int]:
    """Ids that would end a request (sampling/penaltylib/min_new_tokens.py counts the same)."""
    ids = set(req.sampling_params.stop_token_ids or ()) | set(req.eos_token_ids or ())
    tokenizer = req.tokenizer
    if tokenizer is not None:
        ids |= set(getattr(tokenizer, "additional_stop_token_ids", None) or ())
        ids |= {tokenizer.eos_token_id}
    return {i for i in ids if i is not None and 0 <= i < vocab}
