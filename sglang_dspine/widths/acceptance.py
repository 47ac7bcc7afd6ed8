"""How many tokens a round of width w is expected to emit, from conditional acceptance per position."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

RECENT = 24  # rounds of one request that may contradict the estimate
SURPRISE = 5.0  # in standard deviations
CONTRADICTED = 8.0  # proposals that older counts are then worth


def expected_length(acceptance: Sequence[float], width: int) -> float:
    """Mean accepted length at `width`, bonus included: 1 + p1 + p1 p2 + ... over width - 1 positions.

    acceptance: P(position i accepted | all before it), from position 1; the last one stands for all later positions.
    """
    length, reached = 1.0, 1.0
    for position in range(width - 1):
        reached *= acceptance[min(position, len(acceptance) - 1)] if acceptance else 0.0
        length += reached
    return length


def from_histogram(counts: Sequence[float], positions: int) -> tuple[float, ...]:
    """Conditional acceptance from how many rounds accepted 0, 1, 2, ... proposals; stops where no round has come."""
    padded = [*counts, *[0.0] * (positions + 1 - len(counts))]
    found = []
    for position in range(1, positions + 1):
        reached = sum(padded[position - 1 :])
        if not reached:
            break
        found.append(sum(padded[position:]) / reached)
    return tuple(found)


class Acceptance:
    """Running conditional acceptance of a workload: counts that fade, so that the last few hundred proposals count, and
    that fade at once when the last few rounds contradict them.

    A position that is seldom reached leans on the estimate of the one before it.
    """

    def __init__(self, positions: int, prior: Sequence[float], horizon: int = 300, weight: float = 4.0) -> None:
        """horizon: rounds of one request after which a count has lost most of its weight. weight: proposals that the
        estimate of the position before counts for."""
        self.horizon, self.weight = horizon, weight
        self.prior = prior[0] if prior else 0.8
        self.tried, self.kept = [0.0] * positions, [0.0] * positions
        for position in range(min(positions, len(prior))):
            self.tried[position], self.kept[position] = weight, weight * prior[position]
        self._recent: deque[tuple[float, float]] = deque(maxlen=RECENT)  # surprise and its variance, a request each
        self._profile = self._estimate()

    def note(self, width: int, accepted: Sequence[int]) -> None:
        """accepted: proposals accepted, 0 .. width - 1, of each request of one round."""
        mean, variance = _moments(self._profile, width)
        self._recent.extend((count - mean, variance) for count in accepted)
        if self._contradicted():
            self.fade_to(CONTRADICTED)
        keep = max(0.5, 1 - len(accepted) / self.horizon)
        tried = len(accepted)
        ended = Counter(accepted)
        for position in range(width - 1):
            kept = tried - ended[position]
            self.tried[position] = keep * self.tried[position] + tried
            self.kept[position] = keep * self.kept[position] + kept
            tried = kept
        self._profile = self._estimate()

    def fade_to(self, limit: float) -> None:
        """Let what was seen so far count for at most `limit` proposals a position: the text has moved on."""
        self.prior = self._profile[0]
        for position, tried in enumerate(self.tried):
            keep = min(1.0, limit / tried) if tried else 1.0
            self.tried[position], self.kept[position] = keep * tried, keep * self.kept[position]
        self._recent.clear()
        self._profile = self._estimate()

    @property
    def profile(self) -> tuple[float, ...]:
        return self._profile

    def _estimate(self) -> tuple[float, ...]:
        found, before = [], self.prior
        for tried, kept in zip(self.tried, self.kept, strict=True):
            before = (kept + self.weight * before) / (tried + self.weight)
            found.append(before)
        return tuple(found)

    def _contradicted(self) -> bool:
        """Do the last rounds lie further from the estimate than chance explains?"""
        if len(self._recent) < RECENT:
            return False
        surprise, variance = (sum(column) for column in zip(*self._recent, strict=True))
        return abs(surprise) > SURPRISE * max(variance, 1e-9) ** 0.5


def _moments(profile: Sequence[float], width: int) -> tuple[float, float]:
    """Mean and variance of the proposals accepted at `width`."""
    mean = square = 0.0
    reached = 1.0
    for position in range(width - 1):
        reached *= profile[position]
        mean += reached
        square += (2 * position + 1) * reached  # E[k^2] = sum of (2i - 1) P(k >= i)
    return mean, max(square - mean * mean, 0.05)
