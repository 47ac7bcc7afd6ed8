"""Choose the width that is expected to emit most tokens per second: L(w) / T(b, w), from step times that the table
measured and from the acceptance of what is being served.

L(w) follows the workload (`acceptance`). A width is left only for one that is clearly better and not before it had its
time, so that noise moves nothing. Plain decode, width 1, tells nothing about acceptance: a run of it is broken by a few
rounds of drafting, seldomer the more often they found nothing. Only counts of proposals decide, never a clock, so all
ranks of a server decide alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import DSpineError
from .acceptance import Acceptance, expected_length
from .table import SpsTable

MARGIN = 0.04  # a width is left for one that is better by this much
DWELL = 16  # rounds of a batch size before its width may change again
FIRST_BURST, LONGEST_BURST = 48, 384  # rounds of plain decode before a probe
PROBE = 12  # proposals at the first position that a probe wants to see
STALE = 6.0  # proposals that the counts from before a burst are worth when it is probed


@dataclass
class _Choice:
    """The width of one batch size, and for how many rounds it has been that."""

    width: int
    rounds: int = 0


@dataclass
class _Burst:
    """Rounds of plain decode since acceptance was last seen."""

    length: int = FIRST_BURST
    rounds: int = 0
    probing: int = 0  # proposals the running probe still wants to see; 0: none runs
    probes: int = 0


@dataclass
class AdaptivePolicy:
    """`name`, `choose`, `note`, `widths_of`, `report`: see policy.Policy."""

    table: SpsTable
    widths: tuple[int, ...]  # candidates; 1 among them allows bursts of plain decode
    name: str = "adaptive"
    switches: int = 0
    chosen: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        if self.table.cost is None:
            raise DSpineError(
                f"DSPINE_WIDTH_POLICY=adaptive needs measured step times, and {self.table.where} holds none; run "
                "sps-tuning/tune_sps.py on this machine, or set DSPINE_WIDTH_POLICY=table"
            )
        if not self.widths:
            raise DSpineError(
                f"DSPINE_WIDTH_POLICY=adaptive: {self.table.where} has step times for widths "
                f"{list(self.table.cost.widths)}, none of which this checkpoint's block holds; run "
                "sps-tuning/tune_sps.py with this checkpoint"
            )
        missing = [width for width in self.widths if width not in self.table.cost.widths]
        if missing:
            raise DSpineError(
                f"DSPINE_WIDTHS names {missing}, which {self.table.where} has no step times for; it has "
                f"{list(self.table.cost.widths)}"
            )
        self._cost = self.table.cost
        self._acceptance = Acceptance(max(self.widths) - 1, self.table.acceptance)
        self._choices: dict[int, _Choice] = {}
        self._burst = _Burst()
        self._lengths: dict[int, float] | None = None  # expected accepted length by width, until the next outcome
        self._ms: dict[tuple[int, int], float] = {}

    def widths_of(self, batch: int) -> tuple[int, ...]:
        return self.widths

    def choose(self, batch: int) -> int:
        width = self._settle(batch)
        if width == 1:
            width = self._perhaps_probe(batch)
        self.chosen[width] += 1
        return width

    def note(self, batch: int, width: int, accepted: Sequence[int]) -> None:
        if width == 1 or width not in self.widths:  # a width that was forced is no candidate's business
            return
        self._acceptance.note(width, accepted)
        self._lengths = None
        burst = self._burst
        burst.rounds = 0
        if burst.probing:
            burst.probing = max(0, burst.probing - len(accepted))
            if not burst.probing:
                burst.length = min(2 * burst.length, LONGEST_BURST)  # unless drafting is taken up again
                for choice in self._choices.values():
                    choice.rounds = DWELL  # what the probe saw may decide at once

    def rate(self, batch: int, width: int) -> float:
        """Expected tokens per request and millisecond."""
        if self._lengths is None:
            self._lengths = {w: expected_length(self._acceptance.profile, w) for w in self.widths}
        if (batch, width) not in self._ms:
            self._ms[batch, width] = self._cost(batch, width)
        return self._lengths[width] / self._ms[batch, width]

    def report(self) -> dict[str, Any]:
        return {
            "chosen": {str(width): count for width, count in sorted(self.chosen.items())},
            "switches": self.switches,
            "probes": self._burst.probes,
            "acceptance": [round(p, 4) for p in self._acceptance.profile],
        }

    def _settle(self, batch: int) -> int:
        """The width of this batch size after perhaps changing it."""
        best = max(self.widths, key=lambda width: self.rate(batch, width))
        choice = self._choices.setdefault(batch, _Choice(best))
        choice.rounds += 1
        better = self.rate(batch, best) > (1 + MARGIN) * self.rate(batch, choice.width)
        if best != choice.width and better and choice.rounds > DWELL:
            if choice.width == 1:
                self._burst = _Burst(probes=self._burst.probes)  # drafting pays again
            choice.width, choice.rounds = best, 1
            self.switches += 1
        return choice.width

    def _perhaps_probe(self, batch: int) -> int:
        """1, or a width to draft with because acceptance has not been seen for a burst."""
        drafting = [width for width in self.widths if width > 1]
        if not drafting:
            return 1
        burst = self._burst
        burst.rounds += 1
        if burst.rounds > burst.length and not burst.probing:
            burst.probing, burst.probes = PROBE, burst.probes + 1
            self._acceptance.fade_to(STALE)
            self._lengths = None
        if not burst.probing:
            return 1
        return max(drafting, key=lambda width: self.rate(batch, width))
