"""Conditional laws from logprobs: a served row lists only its most probable tokens, and that must be enough.

SGLang returns `log_softmax` at temperature 1 of the first `top_logprobs_num` tokens. At another temperature the
weight of the unlisted tail is not known, but it lies between two bounds; a row whose bounds leave more than the
tolerance open is refused, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sglang_dspine.errors import DSpineError
from sglang_dspine.exactness.filters import Order, Sampling, keep_ranked

TIE = 1e-5  # logprobs closer than this may change places from one forward pass to the next


@dataclass(frozen=True)
class Laws:
    """Laws of S cells over at most C listed tokens each, most probable first."""

    ids: np.ndarray  # [S, C] int64 token ids, -1 where a row lists fewer
    probs: np.ndarray  # [S, C] float64
    rest: np.ndarray  # [S] float64, mass of all unlisted tokens together

    def take(self, rows: np.ndarray) -> Laws:
        """The laws of some cells, in their order."""
        return Laws(self.ids[rows], self.probs[rows], self.rest[rows])

    @staticmethod
    def stack(rows: list[tuple[np.ndarray, np.ndarray, float]]) -> Laws:
        """Pad rows of (ids, probs, rest) to one table."""
        width = max((len(ids) for ids, _, _ in rows), default=0)
        ids = np.full((len(rows), width), -1, np.int64)
        probs = np.zeros((len(rows), width))
        for s, (i, p, _) in enumerate(rows):
            ids[s, : len(i)], probs[s, : len(p)] = i, p
        return Laws(ids, probs, np.array([r for _, _, r in rows], np.float64))


def law_from_logprobs(
    logprobs: np.ndarray,
    ids: np.ndarray,
    sampling: Sampling,
    *,
    order: Order = "joint",
    vocab_size: int | None = None,
    tolerance: float = 1e-4,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Law over the listed tokens and the mass of the rest, from one row's top logprobs.

    logprobs, ids: [C] the row's C most probable tokens at temperature 1, any order.
    Returns ids [<=C] most probable first with a positive probability, their probabilities, and the rest's mass.
    Tokens tied at a cut belong to the rest: which of them a sampler keeps is its own affair.
    Raises DSpineError when the list is too short: the tail could move a probability by more than `tolerance`,
    or a cut falls among unlisted tokens.
    """
    ranked = np.lexsort((ids, -np.asarray(logprobs, np.float64)))
    ids, lp = np.asarray(ids)[ranked], np.asarray(logprobs, np.float64)[ranked]
    if sampling.temperature == 0:
        return ids[:1], np.ones(1), 0.0
    low, high = tail_weight(lp, sampling.temperature, vocab_size)
    weights = np.exp(lp / sampling.temperature)
    tail = (low + high) / 2
    kept = keep_ranked(np.append(weights, tail) / (weights.sum() + tail), sampling, order)  # the tail as one token
    if kept[-2] == 0:
        kept[-1] = 0.0  # cut within the list, so every unlisted token is cut too
    _demand_enough(len(ids), sampling, order, (high - low) / (weights.sum() + tail), tail, kept[-1], tolerance)
    kept /= kept.sum()
    alive = kept[:-1] > 0
    last = int(alive.sum()) - 1
    if last + 1 < len(ids):  # whichever of tied tokens passes the cut, their mass together is known
        alive &= lp > lp[last] + TIE if lp[last] - lp[last + 1] < TIE else True
    return ids[alive], kept[:-1][alive], float(kept[-1] + kept[:-1][~alive].sum())


def _demand_enough(
    listed: int,
    sampling: Sampling,
    order: Order,
    slack: float,
    tail: float,
    kept_tail: float,
    tolerance: float,
) -> None:
    """Refuse a row whose unlisted tail decides something."""
    if tail == 0:
        return
    needs_softmax = order == "joint" and sampling.top_p < 1  # the cut is made on the whole vocabulary's mass
    cut_in_tail = kept_tail > 0 and (sampling.top_p < 1 or sampling.min_p > 0 or sampling.top_k > listed)
    if cut_in_tail or (not slack <= tolerance and (kept_tail > 0 or needs_softmax)):
        raise DSpineError(
            f"{listed} listed tokens are too few for {sampling}: {slack:.1e} of the mass is open, expected at most "
            f"{tolerance:.0e} and every cut within the list; ask for more top logprobs (at most the vocabulary: more "
            "stops the server), name the vocabulary size, or set a top_k within the list"
        )


def tail_weight(lp: np.ndarray, temperature: float, vocab_size: int | None) -> tuple[float, float]:
    """Bounds of sum(p ** (1 / T)) over the unlisted tokens; none of them is likelier than the last listed one."""
    mass = max(0.0, 1.0 - float(np.exp(lp).sum()))
    unlisted = None if vocab_size is None else vocab_size - len(lp)
    if unlisted == 0 or mass < 1e-6:  # float32 logprobs do not add up closer than that
        return 0.0, 0.0
    power = 1.0 / temperature
    piled = mass * float(np.exp(lp[-1] * (power - 1.0)))  # as few tokens as possible, each like the last listed
    if temperature == 1:
        return mass, mass
    if unlisted is None:
        return (0.0, piled) if temperature < 1 else (piled, 1e300)
    spread = unlisted * (mass / unlisted) ** power  # all unlisted tokens alike
    return min(piled, spread), max(piled, spread)
