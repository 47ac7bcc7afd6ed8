"""E4, distribution: do sampled tokens follow the target's law, given what stands before them?

The first token comes from prefill and is never speculative, so positions 2 and later are tested, conditional on the
prefix. Two references:

    against the law      exact conditionals of the target, from teacher-forced scoring and our own filters
    against a control    the same requests through plain decode; needs no logprobs, and no exact arithmetic

The family, fixed before a sample is drawn:

    every position >= 2 together, each position, each prompt    classes are ranks within a prefix, so that prefixes
                                                                seen once still count
    all prefixes that end in one token, for the commonest       classes are tokens: most of what a law hangs on is the
    of them                                                     last token, and here its visits come together
    prefixes visited often, their statistics added up           deviations whose directions differ by prefix add too
    the most visited of them, one by one                        classes are tokens: a single wrong candidate shows

Ranks are of the law's probability (or, against a control, of the two arms' common count, which says nothing about
either arm). All p-values of a report are corrected together (Holm).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from sglang_dspine.exactness.laws import Laws
from sglang_dspine.exactness.samples import Cells, Samples, cells_of, count, frequencies
from sglang_dspine.exactness.statistics import (
    MIN_EXPECTED_ADDED,
    Test,
    added,
    against_law,
    holm,
    settle,
    two_sample,
)


@dataclass(frozen=True)
class Family:
    """Which tests a setting gets."""

    last_tokens: int = 8  # at most so many tokens' prefixes are tested together
    single_cells: int = 16  # at most so many prefixes are tested one by one
    min_cell: int = 200  # visits that make a prefix an often visited one
    ranks: int = 8  # rank classes of a pooled test; the rest is one more


USUAL = Family()
Classes = Callable[[np.ndarray, np.ndarray], np.ndarray]  # table [S, C + 1], ids [S, C] -> [S, classes]


@dataclass(frozen=True)
class Outcome:
    """All tests of a report, corrected together."""

    tests: list[Test]
    alpha: float = 0.05

    @classmethod
    def of(cls, tests: list[Test], alpha: float = 0.05, seed: int = 0) -> Outcome:
        """Settle the p-values that rejections hang on."""
        return cls(settle(tests, alpha, np.random.default_rng(seed)), alpha)

    @property
    def corrected(self) -> np.ndarray:
        """Holm-corrected p-values, one a test."""
        return holm(np.array([t.p for t in self.tests]))

    @property
    def rejections(self) -> list[Test]:
        """Tests whose corrected p-value lies below alpha."""
        return [t for t, p in zip(self.tests, self.corrected, strict=True) if p < self.alpha]

    @property
    def smallest(self) -> float:
        """Smallest corrected p-value; 1 without any test."""
        return float(self.corrected.min(initial=1.0))


def judge_against_law(
    samples: Samples, law_of: Callable[[Cells], Laws], family: Family = USUAL, label: str = "", first: int = 2
) -> list[Test]:
    """Tests of one setting against exact conditionals. `law_of` gives the law of every cell at once."""
    cells = cells_of(samples, first)
    laws = law_of(cells)
    counts = count(samples, cells, laws)
    law = np.concatenate([laws.probs, laws.rest[:, None]], axis=1)

    def test(name: str, rows: np.ndarray, classes: Classes, least: float | None = None) -> Test | None:
        return against_law(name, classes(counts[rows], laws.ids[rows]), classes(law[rows], laws.ids[rows]), least)

    return _family(cells, counts.sum(axis=1), test, family, label)


def judge_against_control(
    samples: Samples, control: Samples, family: Family = USUAL, label: str = "", first: int = 2
) -> list[Test]:
    """Tests of one setting against plain decode of the same prompts."""
    both = samples.joined(control)
    cells = cells_of(both, first)
    laws = frequencies(both, cells)
    a = count(both, cells, laws, slice(0, len(samples)))
    b = count(both, cells, laws, slice(len(samples), None))

    def test(name: str, rows: np.ndarray, classes: Classes, least: float | None = None) -> Test | None:
        return two_sample(name, classes(a[rows], laws.ids[rows]), classes(b[rows], laws.ids[rows]), least)

    return _family(cells, np.minimum(a.sum(axis=1), b.sum(axis=1)), test, family, label)


def _family(
    cells: Cells, visits: np.ndarray, test: Callable[..., Test | None], family: Family, label: str
) -> list[Test]:
    """All tests of a setting. `test(name, rows, classes, least)` tests the cells `rows` as strata.

    Visits of a prefix are decided before its next token is drawn, so choosing prefixes by them is no peeking.
    """
    ranks = partial(by_rank, ranks=family.ranks)
    tests = [test(label + name, rows, ranks) for name, rows in _pools(cells)]
    tests += [test(label + name, rows, by_token) for name, rows in _last_tokens(cells, visits, family)]
    often = [np.array([s]) for s in np.argsort(-visits, kind="stable") if visits[s] >= family.min_cell]
    alone = [t for s in often if (t := test("", s, by_own_rank, MIN_EXPECTED_ADDED)) is not None]
    tests.append(added(f"{label}often visited prefixes", alone))
    tests += [
        test(f"{label}prompt {cells.prompt[s[0]]} after {list(cells.prefix[s[0]])}", s, by_own_rank)
        for s in often[: family.single_cells]
    ]
    return [t for t in tests if t is not None]


def by_own_rank(table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Classes as they are listed: a single cell's tokens."""
    return table


def by_rank(table: np.ndarray, ids: np.ndarray, ranks: int) -> np.ndarray:
    """Columns beyond the first `ranks` added up: [S, min(C, ranks + 1)]."""
    if table.shape[1] <= ranks + 1:
        return table
    return np.concatenate([table[:, :ranks], table[:, ranks:].sum(axis=1, keepdims=True)], axis=1)


def by_token(table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """A column for each token that any of the cells lists, one for the rest. [S, C + 1], ids [S, C] -> [S, U + 1]"""
    listed = ids >= 0
    tokens = np.unique(ids[listed])
    aligned = np.zeros((len(table), len(tokens) + 1), table.dtype)
    cell, column = np.nonzero(listed)
    aligned[cell, np.searchsorted(tokens, ids[cell, column])] = table[cell, column]
    aligned[:, -1] = table[:, -1]
    return aligned


def _last_tokens(cells: Cells, visits: np.ndarray, family: Family) -> Iterator[tuple[str, np.ndarray]]:
    """Names and row masks of the commonest last tokens whose prefixes are several; one alone is tested elsewhere."""
    last = np.array([prefix[-1] if prefix else -1 for prefix in cells.prefix])
    tokens, of_cell, prefixes = np.unique(last, return_inverse=True, return_counts=True)
    visited = np.bincount(of_cell.reshape(-1), weights=visits, minlength=len(tokens))
    several = (prefixes > 1) & (visited >= family.min_cell)
    for t in np.argsort(-np.where(several, visited, -1), kind="stable")[: min(family.last_tokens, several.sum())]:
        yield f"after {tokens[t]}", last == tokens[t]


def _pools(cells: Cells) -> Iterator[tuple[str, np.ndarray]]:
    """Names and row masks of the pooled tests."""
    yield "all positions", np.ones(len(cells), bool)
    for name, of_cell in (("position", cells.position), ("prompt", cells.prompt)):
        values = np.unique(of_cell)
        for value in values if len(values) > 1 else []:  # a single one would repeat the test over all
            yield f"{name} {value}", of_cell == value
