"""Which prompts can show a wrong q at all? Where the next token is certain, or all tokens alike, none can.

A wrong q moves the emitted law by delta; a token then carries sum(delta^2 / p) of evidence, the noncentrality of the
chi-squared. A law of a few unequal tokens behind a first token that is nearly certain is best: 9,000 requests then
meet in few prefixes. Prompts are chosen by it from a pilot that is not tested afterwards, with a modelled
drafter, so the choice knows nothing about the server's own q.
"""

from __future__ import annotations

import numpy as np

from sglang_dspine.exactness.distribution import USUAL
from sglang_dspine.exactness.laws import Laws
from sglang_dspine.exactness.power import colder, warmer
from sglang_dspine.exactness.rejection import emitted_law
from sglang_dspine.exactness.samples import Cells
from sglang_dspine.exactness.statistics import MIN_EXPECTED
from sglang_dspine.exactness.workload import drafter


def evidence(laws: Laws, visits: np.ndarray, *, noise: float = 0.8, seed: int = 0) -> np.ndarray:
    """Evidence [S] one token drawn in each cell gives against a temperature of q 10 % off, the harder direction.

    visits: [S] tokens a cell would get; tokens it expects fewer than MIN_EXPECTED times count as one.
    """
    law = np.concatenate([laws.probs, laws.rest[:, None]], axis=1)
    q = drafter(law, noise, np.random.default_rng(seed))
    rare = law * visits[:, None] < MIN_EXPECTED
    gained = []
    for plant in (colder, warmer):
        delta = emitted_law(law, q, plant(q)) - law
        seen = np.where(rare, 0.0, delta**2 / np.maximum(law, 1e-300)).sum(axis=1)
        together = np.where(rare, delta, 0.0).sum(axis=1) ** 2 / np.maximum((law * rare).sum(axis=1), 1e-300)
        gained.append(seen + np.where((law * rare).sum(axis=1) * visits < MIN_EXPECTED, 0.0, together))
    return np.minimum(*gained)


def choose(cells: Cells, laws: Laws, count: int, requests: int) -> list[int]:
    """The `count` prompts of a pilot that carry most evidence when `requests` share them, best first.

    Only prefixes that would be visited often count: elsewhere the evidence is spread too thin to be seen.
    `laws` are exact conditionals of the pilot's cells; frequencies of a small pilot would not do.
    """
    visits = np.bincount(cells.cell_of[cells.cell_of >= 0], minlength=len(cells))
    prompts = np.unique(cells.prompt)
    second = cells.position == 2
    pilot = np.bincount(cells.prompt[second], weights=visits[second])  # requests the pilot gave each prompt
    expected = visits / pilot[cells.prompt] * requests / count
    weight = np.where(expected >= USUAL.min_cell, expected * evidence(laws, expected), 0.0)
    total = np.bincount(cells.prompt, weights=weight)
    return prompts[np.argsort(-total[prompts], kind="stable")[:count]].tolist()
