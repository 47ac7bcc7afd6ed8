"""Non-finite target rows: repaired before anything reads them, counted, never the last vocabulary id by accident.

SGLang 0.5.23 emits the last vocabulary id for a NaN row of a sampled verify (report 1, sglang#35324).
"""

from __future__ import annotations

import torch

from ..kernels.repair import repair

FINE, NAN, INFINITE, EMPTY, ADJUSTED, PROBABILITIES = range(6)
CAUSES = {
    NAN: "nan_logits",
    INFINITE: "infinite_logits",
    EMPTY: "no_finite_logit",
    ADJUSTED: "adjusted_logits",  # finite before a request's own bias or logit processor
    PROBABILITIES: "probabilities",
}


def repair_rows(logits: torch.Tensor) -> torch.Tensor:
    """Make every row of `logits` [N, V] usable, in place; finite rows stay as they are, bit for bit.

    -inf alone is legal (a mask). NaN and +inf become -inf; a row with nothing left becomes all zeros, whose argmax is
    the lowest id. Returns the cause of each row, FINE or a key of CAUSES, int8 [N] on the same device (no host sync).
    """
    most = logits.amax(-1)  # NaN wins over everything, +inf over every number
    repair(logits, most)
    cause = torch.where(most == float("inf"), INFINITE, FINE)
    cause = torch.where(most == float("-inf"), EMPTY, cause)
    return torch.where(most.isnan(), NAN, cause).to(torch.int8)


def repair_adjusted(logits: torch.Tensor) -> torch.Tensor:
    """The same after a request's own bias or processor. A row that is all masked is no fault here: a grammar may
    have ended. int8 [N]: FINE or ADJUSTED."""
    cause = repair_rows(logits)
    return torch.where((cause == NAN) | (cause == INFINITE), ADJUSTED, FINE).to(torch.int8)


def repair_probabilities(probs: torch.Tensor, top1: torch.Tensor) -> torch.Tensor:
    """Rows of `probs` [R, V] that are no distribution become certain of `top1` [R], in place; others keep every bit.

    Returns int8 [R]: FINE or PROBABILITIES.
    """
    total = probs.sum(-1)
    bad = ~((total > 0) & (total < float("inf")))  # NaN compares false
    probs.masked_fill_(bad[:, None], 0.0)
    probs.scatter_add_(1, top1[:, None], bad[:, None].to(probs.dtype))
    return torch.where(bad, PROBABILITIES, FINE).to(torch.int8)
