"""Which rows' cuts hang on rounding? There top-k, top-p or min-p keeps a token in one pass and drops it in the next.

On a GPU the row that verify used and the re-score differ by rounding. A law moves with it a little, which 9,000 draws
do not see; the set of tokens that a cut keeps jumps, and one draw outside it disproves the law. Such rows cannot be
judged by one law. What a row is depends on the prefix alone, so leaving it out, and what follows it, is no peeking.
"""

from __future__ import annotations

import numpy as np

from sglang_dspine.exactness.filters import Order, Sampling, keep_ranked
from sglang_dspine.exactness.laws import tail_weight


def cut_is_open(
    logprobs: np.ndarray,
    sampling: Sampling,
    rounding: float,
    *,
    order: Order = "joint",
    vocab_size: int | None = None,
) -> bool:
    """Whether log-probabilities that are each off by at most `rounding` could change which tokens are kept.

    logprobs: [C] the row's most probable tokens at temperature 1, any order; enough of them (law_from_logprobs).
    """
    if rounding == 0 or sampling.temperature == 0:
        return False
    lp = np.sort(np.asarray(logprobs, np.float64))[::-1]
    tail = sum(tail_weight(lp, sampling.temperature, vocab_size)) / 2
    weights = np.append(np.exp(lp / sampling.temperature), tail)
    p = weights / weights.sum()
    kept = keep_ranked(p, sampling, order)[:-1]
    last = int((kept > 0).sum()) - 1  # of the kept
    moved = 2 * rounding / sampling.temperature  # of the log of a ratio of two masses
    if not _is_kept(p, last, sampling, order, moved):
        return True
    if last + 1 == len(lp):
        return False
    near = (lp[last] - lp[last + 1]) / sampling.temperature <= moved
    return bool(near) or not _is_cut(p, last + 1, sampling, order, moved)


def _is_kept(p: np.ndarray, i: int, sampling: Sampling, order: Order, moved: float) -> bool:
    """Whether every rule but that of ranks keeps token i, rounded whichever way."""
    inside = _odds(_before(p, i, sampling, order)) * np.exp(moved) <= _odds(sampling.top_p)
    return bool(inside and (i == 0 or p[i] / p[0] * np.exp(-moved) >= sampling.min_p))


def _is_cut(p: np.ndarray, i: int, sampling: Sampling, order: Order, moved: float) -> bool:
    """Whether any rule drops token i, rounded whichever way."""
    beyond = 0 < sampling.top_k <= i
    outside = _odds(_before(p, i, sampling, order)) * np.exp(-moved) > _odds(sampling.top_p)
    return bool(beyond or outside or p[i] / p[0] * np.exp(moved) < sampling.min_p)


def _before(p: np.ndarray, i: int, sampling: Sampling, order: Order) -> float:
    """Mass of the tokens before token i, of what top-p is taken of."""
    whole = p[: sampling.top_k].sum() if order == "top_k_first" and sampling.top_k > 0 else p.sum()
    return float(min(p[:i].sum() / whole, 1.0))


def _odds(mass: float) -> float:
    return np.inf if mass >= 1 else mass / (1 - mass)
