"""Workloads for the simulation of E4: a target, a drafter, prompts, and how much is sampled.

The target is either synthetic or the one a report observed: its cells are the states, its first tokens the starts.
The drafter's q cannot be seen from outside, so it is modelled as q ~ p * exp(noise), with as much noise as gives the
accepted length the run had. Walks that leave the observed prefixes end there, which errs on the weak side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sglang_dspine.exactness.filters import softmax
from sglang_dspine.exactness.laws import Laws
from sglang_dspine.exactness.rejection import Automaton, speculate
from sglang_dspine.exactness.samples import Cells, Samples


@dataclass(frozen=True)
class Workload:
    """What is sampled: a target, a drafter, prompts, and how much of it."""

    target: Automaton
    q: np.ndarray  # [S, C] what proposals are drawn from
    prompt: np.ndarray  # [S] prompt a start state belongs to
    ranked: Laws  # laws of the states, likeliest token first
    tokens: np.ndarray  # [S, C] token of each column
    first: np.ndarray  # [S] first token of a start state
    requests: int = 9000
    length: int = 5  # tokens tested per request, the first one not among them
    proposals: int = 15


def sampled(
    workload: Workload, drawn: np.ndarray, claimed: np.ndarray, rng: np.random.Generator
) -> tuple[Samples, np.ndarray]:
    """Sequences of one simulated run, and the state [N, length] each token after the first was drawn in."""
    columns, states, _ = speculate(
        workload.target,
        drawn,
        claimed,
        requests=workload.requests,
        length=workload.length,
        proposals=workload.proposals,
        rng=rng,
    )
    start = states[:, 0]
    tokens = np.where(columns >= 0, workload.tokens[states, columns], -1)
    tokens = np.concatenate([workload.first[start][:, None], tokens], axis=1)
    return Samples(workload.prompt[start], tokens), states


def laws_of(workload: Workload, cells: Cells, states: np.ndarray) -> Laws:
    """Law of every cell of a simulated run, through the state its tokens were drawn in."""
    state_of = np.zeros(len(cells), np.int64)
    drawn = cells.cell_of[:, 1:] >= 0
    state_of[cells.cell_of[:, 1:][drawn]] = states[drawn]
    ranked = workload.ranked
    return ranked.take(state_of)


def synthetic(
    *,
    prompts: int = 6,
    tokens: int = 8,
    sharpness: float = 2.0,
    noise: float = 0.8,
    requests: int = 9000,
    length: int = 5,
    seed: int = 0,
) -> Workload:
    """A target whose law depends on the last two tokens: softmax(sharpness * normal) over `tokens` tokens."""
    rng = np.random.default_rng(seed)
    n = tokens * tokens
    law = softmax(sharpness * rng.normal(size=(n, tokens)))
    child = (np.arange(n) % tokens)[:, None] * tokens + np.arange(tokens)
    q = drafter(law, noise, rng)
    ids = np.argsort(-law, axis=1)
    ranked = Laws(ids, np.take_along_axis(law, ids, axis=1), np.zeros(n))
    start = rng.choice(n, size=prompts, replace=False)
    prompt = np.zeros(n, np.int64)
    prompt[start] = np.arange(prompts)
    names, last = np.broadcast_to(np.arange(tokens), law.shape), np.arange(n) % tokens
    return Workload(Automaton(law, child, start), q, prompt, ranked, names, last, requests, length)


def observed(
    cells: Cells,
    laws: Laws,
    samples: Samples,
    *,
    accepted_length: float | None = None,
    proposals: int = 15,
    candidates: int = 16,
    seed: int = 0,
) -> Workload:
    """The target a run has seen, with a modelled drafter that reaches the run's accepted length (bonus included)."""
    law = np.concatenate([laws.probs, laws.rest[:, None]], axis=1)
    child = np.full(law.shape, -1, np.int64)
    for k in range(1, samples.tokens.shape[1] - 1):
        here, there = cells.cell_of[:, k], cells.cell_of[:, k + 1]
        rows = np.flatnonzero((here >= 0) & (there >= 0))
        hit = laws.ids[here[rows]] == samples.tokens[rows, k][:, None]
        listed = hit.any(axis=1)
        child[here[rows][listed], hit.argmax(axis=1)[listed]] = there[rows][listed]
    start = cells.cell_of[:, 1][cells.cell_of[:, 1] >= 0]
    rng = np.random.default_rng(seed)
    alpha = None if accepted_length is None else acceptance_of(accepted_length, proposals)
    visited = np.bincount(cells.cell_of[cells.cell_of >= 0], minlength=len(cells))
    q = calibrated_drafter(law, visited, alpha, candidates, rng)
    length = samples.tokens.shape[1] - 1
    unlisted = int(max(samples.tokens.max(), laws.ids.max())) + 1  # the rest is drawn as a token no law lists
    names = np.concatenate([laws.ids, np.full((len(laws.ids), 1), unlisted)], axis=1)
    first = np.array([prefix[0] for prefix in cells.prefix])
    return Workload(Automaton(law, child, start), q, cells.prompt, laws, names, first, len(start), length, proposals)


def drafter(law: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """q [S, C] near the law: its log-probabilities off by normal noise."""
    wrong = law * np.exp(noise * rng.normal(size=law.shape))
    return wrong / wrong.sum(axis=1, keepdims=True)


def calibrated_drafter(
    law: np.ndarray, visited: np.ndarray, acceptance: float | None, candidates: int, rng: np.random.Generator
) -> np.ndarray:
    """q over the likeliest `candidates`, its noise chosen so that a visit accepts with the given probability."""
    support = law.copy()
    support[:, candidates:] = 0.0
    support[:, -1] = 0.0  # the rest is no token a drafter could name
    support[support.sum(axis=1) == 0, 0] = 1.0
    direction = rng.normal(size=law.shape)
    low, high = 0.0, 4.0
    noise = 0.5 if acceptance is None else high
    while acceptance is not None and high - low > 0.01:
        noise = (low + high) / 2
        q = _with_noise(support, noise, direction)
        reached = float(np.average(np.minimum(law, q).sum(axis=1), weights=visited))
        low, high = (noise, high) if reached > acceptance else (low, noise)
    return _with_noise(support, noise, direction)


def acceptance_of(accepted_length: float, proposals: int) -> float:
    """Acceptance per row that gives a mean accepted length (bonus included), rows taken as independent."""
    low, high = 0.0, 1.0
    while high - low > 1e-6:
        a = (low + high) / 2
        low, high = (a, high) if sum(a**i for i in range(proposals + 1)) < accepted_length else (low, a)
    return low


def _with_noise(support: np.ndarray, noise: float, direction: np.ndarray) -> np.ndarray:
    q = support * np.exp(noise * direction)
    return q / q.sum(axis=1, keepdims=True)
