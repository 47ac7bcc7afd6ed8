"""E2, teacher-forced: are the target rows that verify used the rows plain decode has for the same text?

A row's delta is the largest |difference| between the row verify used and the row an uncached re-score gives. On a GPU
it is never zero, so its distribution is compared with a control's: plain decode against its own re-score. DSPINE
passes when no quantile of its deltas exceeds 1.5 times the control's, at every position.

A wrong recurrent state is small, need not change a token, and may follow only one kind of round. Hence quantiles in
bins of positions and not one maximum over all; a count of rows beyond anything the control has shown, for faults too
rare to move a quantile; and, where the rounds are known, one more comparison per accepted length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sglang_dspine.errors import DSpineError
from sglang_dspine.exactness.report import Report, Table

FACTOR = 1.5
QUANTILES = (0.5, 0.9, 0.99, 0.999)
MIN_ROWS = 400  # of a bin: its median and its 0.9 quantile are then known well enough for the factor to mean something
MIN_BEYOND = 40  # rows that must lie beyond a quantile for it to be compared
FLOOR = 1e-6  # deltas are float32 logprobs: differences of their last digits say nothing
FLAT = 0.5  # share of rows without a most probable token from which on a target says nothing
RARE = 1e-3  # chance of honest rows beyond the control's largest delta, in one report


@dataclass(frozen=True)
class Rows:
    """R compared rows of one arm."""

    position: np.ndarray  # [R] 1 is the first generated token
    delta: np.ndarray  # [R] largest |difference| of the row
    margin: np.ndarray  # [R] the re-score's gap between its two best tokens
    flipped: np.ndarray  # [R] bool, the two rows have another top-1
    accepted: np.ndarray | None = None  # [R] accepted length of the round before the row's, 0 unknown

    def __len__(self) -> int:
        return len(self.delta)

    def where(self, mask: np.ndarray) -> Rows:
        """Rows of a mask."""
        accepted = None if self.accepted is None else self.accepted[mask]
        return Rows(self.position[mask], self.delta[mask], self.margin[mask], self.flipped[mask], accepted)


@dataclass(frozen=True)
class Bin:
    """One comparison of DSPINE's rows with the control's."""

    name: str
    rows: int
    control_rows: int
    quantile: float  # the worst one of the bin
    value: float
    control_value: float

    @property
    def ratio(self) -> float:
        return self.value / max(self.control_value, FLOOR) if self.value > FLOOR else 0.0


def rows_from_logits(
    used: np.ndarray, rescored: np.ndarray, position: np.ndarray, accepted: np.ndarray | None = None
) -> Rows:
    """Compare raw rows: used, rescored [R, V] logits or logprobs of the same text; position, accepted [R]."""
    if used.shape != rescored.shape:
        raise DSpineError(f"rows of shape {used.shape} cannot be compared with {rescored.shape}; expected one shape")
    used, rescored = np.asarray(used, np.float64), np.asarray(rescored, np.float64)
    with np.errstate(invalid="ignore"):
        delta = np.where(used == rescored, 0.0, np.abs(used - rescored)).max(axis=1)  # -inf equals -inf
    best = np.sort(rescored, axis=1)[:, -2:]
    flipped = used.argmax(axis=1) != rescored.argmax(axis=1)
    finite = np.nan_to_num(delta, nan=np.inf)
    return Rows(np.asarray(position), finite, best[:, 1] - best[:, 0], flipped, accepted)


def compare(test: Rows, control: Rows | None, subject: str, factor: float = FACTOR) -> Report:
    """The verdict on DSPINE's rows, given plain decode's."""
    _demand_sense(test, subject)
    if control is None:
        line = f"no control: the largest of {len(test)} deltas is {test.delta.max(initial=0):.3g}, only 0 passes"
        return Report("E2", subject, bool((test.delta <= 0).all()), (line,))
    bins = [b for pair in pairs(test, control) if (b := worst_quantile(*pair)) is not None]
    if not bins:
        raise DSpineError(
            f"{len(test)} and {len(control)} rows are too few to compare; expected at least {MIN_ROWS} in each arm; "
            "generate more tokens or give more prompts"
        )
    wide = [b for b in bins if b.ratio > factor]
    beyond, unlikely = rows_beyond(test, control, factor)
    # Two logits move by a delta each, so rounding can turn a margin of up to twice the largest delta.
    legal = 2 * factor * max(float(control.delta.max()), FLOOR)
    flips = test.margin[test.flipped]
    bad_flips = int((flips > legal).sum())
    worst = max(bins, key=lambda b: b.ratio)
    lines = (
        f"{len(wide)} of {len(bins)} bins are wider than {factor} times the control's",
        f"worst ratio {worst.ratio:.3g}: quantile {worst.quantile} of {worst.name}",
        f"{beyond} of {len(test)} rows lie beyond {factor} times the control's largest delta"
        + (", more than chance gives" if unlikely else ""),
        f"{len(flips)} rows have another top-1 (control {int(control.flipped.sum())}), the widest margin among them is "
        f"{flips.max(initial=0):.3g}, rounding explains up to {legal:.3g}",
    )
    columns = ("rows", "n", "control n", "worst quantile", "delta", "control's delta", "ratio")
    table = Table(
        "largest |difference| per row",
        columns,
        [(b.name, b.rows, b.control_rows, b.quantile, b.value, b.control_value, b.ratio) for b in bins],
    )
    passed = not wide and not unlikely and bad_flips == 0
    return Report("E2", subject, passed, lines, (table, _all_quantiles(test, control)), _facts(test, control, worst))


def _demand_sense(rows: Rows, subject: str) -> None:
    """A target whose rows are all alike, broken kernels say, would agree with itself whatever speculation does."""
    tied = int((rows.margin == 0).sum())
    if tied > FLAT * len(rows):
        raise DSpineError(
            f"{subject}: in {tied} of {len(rows)} rows the two best tokens are equally probable; expected a target "
            "that prefers one. Read what it writes: its weights or their kernels are broken"
        )


def pairs(test: Rows, control: Rows) -> Iterator[tuple[str, Rows, Rows]]:
    """What is compared with what: bins of positions, then rounds after one accepted length with all of the control."""
    yield "all positions", test, control
    for low, high in position_bins(test.position, control.position):
        in_test, in_control = _between(test, low, high), _between(control, low, high)
        yield f"positions {low} to {high - 1}", in_test, in_control
    if test.accepted is not None:
        for length in np.unique(test.accepted[test.accepted > 0]):
            yield f"after accepted length {length}", test.where(test.accepted == length), control


def position_bins(test: np.ndarray, control: np.ndarray, least: int = MIN_ROWS) -> list[tuple[int, int]]:
    """Half-open bins [low, high) of positions, as narrow as `least` rows in both arms allow."""
    edges, low = [], 1
    last = int(max(test.max(initial=0), control.max(initial=0)))
    for high in range(2, last + 2):
        enough = [int(((p >= low) & (p < high)).sum()) >= least for p in (test, control)]
        if all(enough):
            edges.append((low, high))
            low = high
    if edges and low <= last:
        edges[-1] = (edges[-1][0], last + 1)  # the remainder is too small to stand alone
    return edges


def worst_quantile(name: str, test: Rows, control: Rows) -> Bin | None:
    """The quantile of the widest ratio, among those both arms have rows enough for."""
    n = min(len(test), len(control))
    resolved = [q for q in QUANTILES if n >= MIN_ROWS and n * (1 - q) >= MIN_BEYOND - 1e-9]
    if not resolved:
        return None
    made = [
        Bin(name, len(test), len(control), q, _quantile(test.delta, q), _quantile(control.delta, q)) for q in resolved
    ]
    return max(made, key=lambda b: b.ratio)


def rows_beyond(test: Rows, control: Rows, factor: float = FACTOR) -> tuple[int, bool]:
    """Rows above `factor` times the control's largest delta, and whether they are more than chance gives.

    Were both arms of one distribution, the k largest of all rows would all be the test's with probability
    (n / (n + m)) ** k; rows have to clear the factor on top.
    """
    beyond = int((test.delta > factor * max(float(control.delta.max()), FLOOR)).sum())
    return beyond, (len(test) / (len(test) + len(control))) ** beyond < RARE


def _between(rows: Rows, low: int, high: int) -> Rows:
    return rows.where((rows.position >= low) & (rows.position < high))


def _quantile(delta: np.ndarray, q: float) -> float:
    return float(np.quantile(delta, q, method="higher"))  # an observed value, also beside infinities


def _all_quantiles(test: Rows, control: Rows) -> Table:
    rows = [(q, _quantile(test.delta, q), _quantile(control.delta, q)) for q in (*QUANTILES, 1.0)]
    return Table("quantiles over all rows", ("quantile", "delta", "control's delta"), rows)


def _facts(test: Rows, control: Rows, worst: Bin) -> dict[str, float | int]:
    return {
        "rows": len(test),
        "control_rows": len(control),
        "worst_ratio": worst.ratio,
        "flipped": int(test.flipped.sum()),
        "control_flipped": int(control.flipped.sum()),
    }
