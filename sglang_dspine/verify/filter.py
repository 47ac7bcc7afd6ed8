"""The target's distribution after temperature, top-k, top-p and min-p, as SGLang's own sampler defines it.

SGLang applies the filters jointly (layers/sampler.py): top-p counts the mass of the unfiltered distribution, not of
what top-k left over. DFLASH's verify renormalises between the two, which is another distribution (report 21). One
exception is SGLang's own: its FlashInfer backend does renormalise in between as soon as a request of the batch sets
min-p, and so do we there.
"""

from __future__ import annotations

from typing import Any

import torch

ROWS_SORTED = 64  # at once: without a top-k the whole vocabulary is sorted, which takes 8 times the rows' own memory


def target_distribution(logits: torch.Tensor, sampling_info: Any, width: int, max_top_k: int | None) -> torch.Tensor:
    """Probabilities of every verify row.

    Args:
        logits: [N*w, V], already repaired and adjusted.
        sampling_info: SGLang's SamplingBatchInfo of the N requests.
        width: w.
        max_top_k: upper bound on the batch's top_k, or None where some request samples from the whole vocabulary.
    Returns:
        [N, w, V] fp32, rows sum to one; a greedy request's rows are only meaningful to `accept_greedy`.
    """
    vocab = logits.shape[-1]
    temperatures = sampling_info.temperatures.view(-1, 1).float().repeat_interleave(width, 0)
    probs = torch.softmax(logits.float() / temperatures, -1)
    if not (
        sampling_info.need_top_k_sampling or sampling_info.need_top_p_sampling or sampling_info.need_min_p_sampling
    ):
        return probs.view(-1, width, vocab)
    top_k, top_p, min_p = (
        _per_row(x, width) for x in (sampling_info.top_ks, sampling_info.top_ps, sampling_info.min_ps)
    )
    sequential = sampling_info.need_min_p_sampling and _flashinfer()
    for rows in range(0, len(probs), ROWS_SORTED):
        here = slice(rows, rows + ROWS_SORTED)
        probs[here] = filter_joint(probs[here], top_k[here], top_p[here], min_p[here], max_top_k, sequential)
    return probs.view(-1, width, vocab)


def _per_row(values: torch.Tensor, width: int) -> torch.Tensor:
    """[N] or [N, 1] -> [N*w, 1]"""
    return values.view(-1, 1).repeat_interleave(width, 0)


def _flashinfer() -> bool:
    from sglang.srt.runtime_context import get_exec

    return get_exec().kernel.sampling_backend == "flashinfer"


def filter_joint(
    probs: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    max_top_k: int | None = None,
    sequential: bool = False,
) -> torch.Tensor:
    """Keep a token when fewer than top_k are likelier, the mass above it is at most top_p, and it reaches min_p of the
    likeliest; renormalise. probs [R, V]; the limits [R, 1]. `sequential`: top-p counts the mass top-k left over."""
    vocab = probs.shape[-1]
    if max_top_k is not None and 0 < max_top_k < vocab:
        ranked, ids = torch.topk(probs, max_top_k, dim=-1)
    else:
        ranked, ids = torch.sort(probs, dim=-1, descending=True, stable=True)
    rank = torch.arange(ranked.shape[-1], device=probs.device)[None]
    mass = ranked
    if sequential:
        mass = ranked * (rank < top_k)
        mass = mass / mass.sum(-1, keepdim=True)
    above = mass.cumsum(-1) - mass
    keep = (rank < top_k) & (above <= top_p) & (ranked >= min_p * ranked[:, :1])
    kept = ranked * keep
    kept = kept / kept.sum(-1, keepdim=True)
    return torch.zeros_like(probs).scatter_(1, ids, kept)
