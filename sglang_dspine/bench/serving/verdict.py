"""Which differences may be quoted: ratios with intervals, corrected for their number, behind the spread gate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...evidence.ratio import Counts, Ratio, paired_ratio
from ...evidence.spread import GATE, Spread
from ...evidence.trials import interleaved_ratio, separate_ratio
from ...exactness.statistics import holm
from .cell import Cell
from .results import Run

ALPHA = 0.05
BETTER = {"tok/s": "faster", "tok/s per user": "faster", "accepted length": "accepts more"}
WORSE = {"tok/s": "slower", "tok/s per user": "slower", "accepted length": "accepts less"}
SPEEDS: dict[str, Callable[[Cell], float | None]] = {
    "tok/s": lambda c: c.tok_s,
    "tok/s per user": lambda c: c.user_tok_s,
}


@dataclass(frozen=True)
class Verdict:
    """One measure of an arm over the same measure of the baseline."""

    measure: str
    arm: str
    users: int
    ratio: Ratio | None  # None: too few repetitions for an interval
    p: float | None  # corrected by Holm over the comparison
    spread: float | None  # the larger of both arms' range over median; None where there are no repetitions to range
    word: str
    failed: tuple[int, int] = (0, 0)  # requests of both arms that failed, of how many

    @property
    def loss(self) -> bool:
        return self.word in WORSE.values()


def within(run: Run, base: str, arm: str, gate: float = GATE) -> list[Verdict]:
    """An arm against another of the same run; their repetitions ran side by side."""
    found = []
    for users in run.users:
        found += _verdicts(arm, users, run.of(base, users), run.of(arm, users), interleaved_ratio)
    return _judge(found, gate)


def between(before: Run, after: Run, gate: float = GATE) -> list[Verdict]:
    """Each arm of two runs against itself: repetitions are no pairs, conversations are when both sent the same."""
    found = []
    for arm in (name for name in after.arms if name in before.arms):
        for users in (u for u in after.users if u in before.users):
            found += _verdicts(arm, users, before.of(arm, users), after.of(arm, users), separate_ratio)
    return _judge(found, gate)


def crossed(before: Run, base: str, after: Run, arm: str, gate: float = GATE) -> list[Verdict]:
    """An arm of one run against another arm of another run, e.g. of results imported from two files."""
    found = []
    for users in (u for u in after.users if u in before.users):
        found += _verdicts(arm, users, before.of(base, users), after.of(arm, users), separate_ratio)
    return _judge(found, gate)


Form = Callable[[Sequence[float], Sequence[float]], Ratio | None]


def _verdicts(arm: str, users: int, base: list[Cell], test: list[Cell], form: Form) -> list[Verdict]:
    """Unjudged: no word yet."""
    cells = [*base, *test]
    failed = sum(cell.failed for cell in cells), sum(cell.requests for cell in cells)
    found = []
    for measure, of in SPEEDS.items():
        b, a = _pairs(base, test, of) if form is interleaved_ratio else (_known(base, of), _known(test, of))
        if a and b:
            found.append(Verdict(measure, arm, users, form(a, b), None, _spread(a, b), "", failed))
    accepted = _accepted(base, test)
    if accepted is not None:
        lengths = [_known(side, lambda c: c.accepted_length) for side in (base, test)]
        found.append(Verdict("accepted length", arm, users, accepted, None, _spread(*lengths), "", failed))
    return found


def _spread(*sides: Sequence[float]) -> float | None:
    return max(Spread(tuple(side)).share for side in sides) if min(map(len, sides)) > 1 else None


def _pairs(base: list[Cell], test: list[Cell], of: Callable[[Cell], float | None]) -> tuple[list[float], list[float]]:
    """Values of the repetitions both arms have."""
    b, a = ({c.repetition: v for c in cells if (v := of(c)) is not None} for cells in (base, test))
    both = [i for i in b if i in a]
    return [b[i] for i in both], [a[i] for i in both]


def _known(cells: list[Cell], of: Callable[[Cell], float | None]) -> list[float]:
    return [v for c in cells if (v := of(c)) is not None]


def _accepted(base: list[Cell], test: list[Cell]) -> Ratio | None:
    """From counts, conversation by conversation; from repetitions where only a mean was written."""
    b, a = counts(base), counts(test)
    both = sorted(set(a) & set(b))
    if len(both) > 1:
        arm, other = (Counts(*(np.array(column) for column in zip(*(x[n] for n in both), strict=True))) for x in (a, b))
        return paired_ratio(arm, other)
    after, before = (_known(cells, lambda c: c.accepted_length) for cells in (test, base))
    return separate_ratio(after, before) if after and before else None


def counts(cells: Sequence[Cell]) -> dict[str, tuple[int, int]]:
    """Tokens of rounds and rounds of each conversation, over all repetitions."""
    total: dict[str, tuple[int, int]] = {}
    for cell in cells:
        for name, (tokens, rounds) in cell.rounds_of.items():
            before = total.get(name, (0, 0))
            total[name] = (before[0] + tokens, before[1] + rounds)
    return total


def _judge(found: list[Verdict], gate: float) -> list[Verdict]:
    tested = [v for v in found if v.ratio is not None and not math.isnan(v.ratio.p)]
    corrected = dict(zip(map(id, tested), holm(np.array([v.ratio.p for v in tested if v.ratio])), strict=True))
    judged = []
    for verdict in found:
        p = corrected.get(id(verdict))
        judged.append(replace(verdict, p=None if p is None else float(p), word=_word(verdict, p, gate)))
    return judged


def _word(verdict: Verdict, p: float | None, gate: float) -> str:
    if verdict.failed[0]:  # the others had the server to themselves
        return f"not quoted: {verdict.failed[0]} of {verdict.failed[1]} requests failed"
    if verdict.ratio is None or verdict.spread is None:
        return "not quoted: one repetition"
    if p is None:
        return "not quoted: repetitions are all alike"
    if verdict.spread > gate:
        return f"not quoted: spread {100 * verdict.spread:.0f} %"
    if p >= ALPHA:
        return "not different"
    return (BETTER if verdict.ratio.value > 1 else WORSE)[verdict.measure]
