"""Which prompts can show a wrong q at all? Where the next token is certain, or all tokens alike, none can.

A wrong q moves the emitted law by delta; a request then carries sum(delta^2 / p) of evidence per tested token, the
noncentrality of the chi-squared. Prompts are chosen by it from a pilot that is not tested afterwards, with a modelled
drafter, so the choice knows nothing about the server's own q.
"""

from __future__ import annotations

import numpy as np

from sglang_dspine.exactness.laws import Laws
from sglang_dspine.exactness.power import colder, warmer
from sglang_dspine.exactness.rejection import emitted_law
from sglang_dspine.exactness.samples import Cells
from sglang_dspine.exactness.workload import drafter


def evidence(laws: Laws, *, noise: float = 0.5, seed: int = 0) -> np.ndarray:
    """Evidence [S] one token drawn in each cell gives against a temperature of q 10 % off, the harder direction."""
    law = np.concatenate([laws.probs, laws.rest[:, None]], axis=1)
    q = drafter(law, noise, np.random.default_rng(seed))
    gained = []
    for plant in (colder, warmer):
        delta = emitted_law(law, q, plant(q)) - law
        gained.append(np.divide(delta**2, law, out=np.zeros_like(law), where=law > 0).sum(axis=1))
    return np.minimum(*gained)


def choose(cells: Cells, laws: Laws, count: int) -> list[int]:
    """The `count` prompts of a pilot whose tokens carry most evidence, best first.

    `laws` are exact conditionals of the pilot's cells; frequencies of a small pilot would not do.
    """
    visits = np.bincount(cells.cell_of[cells.cell_of >= 0], minlength=len(cells))
    prompts = np.unique(cells.prompt)
    total = np.bincount(cells.prompt, weights=visits * evidence(laws))
    tokens = np.bincount(cells.prompt, weights=visits)
    per_token = total[prompts] / tokens[prompts]
    return prompts[np.argsort(-per_token, kind="stable")[:count]].tolist()
