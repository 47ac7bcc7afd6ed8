"""Speculative sampling on many walkers at once, with the q handed to the acceptor apart from the q drawn from.

Handing over exactly the q that was drawn from leaves the target's law untouched, whatever q is. `drawn` and `claimed`
are two arguments here so that a fault can be planted between them. The rule is that of Leviathan et al. 2023 and of
`sglang/kernels/ops/speculative/reject_sampling.py`: accept when u * q(x) < p(x), else draw from max(p - q, 0).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Automaton:
    """Where tokens come from: a state has one target law and says which state each token leads to.

    Columns are tokens (a Markov chain), or the listed tokens of a prefix with the rest last (an observed run).
    """

    law: np.ndarray  # [S, C] target probabilities
    child: np.ndarray  # [S, C] int64 next state, -1 where the walk ends
    start: np.ndarray  # [M] int64 states after the first token, drawn from uniformly


def emitted_law(p: np.ndarray, drawn: np.ndarray, claimed: np.ndarray) -> np.ndarray:
    """Law [..., C] of the token one row emits: p when drawn == claimed, and not p otherwise."""
    accept = np.minimum(1.0, np.divide(p, claimed, out=np.zeros_like(p), where=claimed > 0))
    kept = drawn * accept
    residual = np.maximum(p - claimed, 0.0)
    mass = residual.sum(axis=-1, keepdims=True)
    residual = np.divide(residual, mass, out=np.zeros_like(p), where=mass > 0)
    return kept + (1.0 - kept.sum(axis=-1, keepdims=True)) * residual


def draw(p: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Columns [N] drawn from weights [N, C] (need not add up to one) with uniforms [N]."""
    cdf = np.cumsum(p, axis=1)
    return np.minimum((u[:, None] * cdf[:, -1:] >= cdf).sum(axis=1), p.shape[1] - 1)


def emit(p: np.ndarray, drawn: np.ndarray, claimed: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One row of N walkers: tokens [N] and whether each was an accepted proposal [N].

    p, drawn, claimed: [N, C]; u: [N, 3] uniforms of the draw, of the acceptance and of the residual.
    """
    rows = np.arange(len(p))
    x = draw(drawn, u[:, 0])
    accepted = (claimed[rows, x] > 0) & (u[:, 1] * claimed[rows, x] < p[rows, x])
    other = draw(np.maximum(p - claimed, 0.0), u[:, 2])
    return np.where(accepted, x, other), accepted


def speculate(
    automaton: Automaton,
    drawn: np.ndarray,
    claimed: np.ndarray,
    *,
    requests: int,
    length: int,
    proposals: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Generate `length` tokens after the first one for each request, block by block.

    drawn, claimed: [S, C] q of each state. Returns columns [requests, length] (-1 where the walk ended), the states
    they were drawn in, and the mean accepted length (bonus included).
    """
    state = automaton.start[rng.integers(len(automaton.start), size=requests)]
    row = np.zeros(requests, np.int64)  # accepted proposals of the block so far
    columns = np.full((requests, length), -1, np.int64)
    states = np.full((requests, length), -1, np.int64)
    blocks = tokens = 0
    for k in range(length):
        live = np.flatnonzero(state >= 0)
        s = state[live]
        p, u = automaton.law[s], rng.random((len(live), 3))
        bonus = row[live] == proposals  # the block is used up: this token comes from the target alone
        token, accepted = emit(p, drawn[s], claimed[s], u)
        token = np.where(bonus, draw(p, u[:, 0]), token)
        columns[live, k], states[live, k] = token, s
        going_on = accepted & ~bonus
        row[live] = np.where(going_on, row[live] + 1, 0)
        blocks, tokens = blocks + int((~going_on).sum()), tokens + len(live)
        state[live] = automaton.child[s, token]
    return columns, states, tokens / max(blocks, 1)
