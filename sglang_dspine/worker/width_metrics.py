"""Counters of rounds by width: for /server_info always, for Prometheus when SGLang exports metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any


class WidthMetrics:
    """Rounds, emitted tokens and proposals by width; forwards that ran outside a captured graph."""

    def __init__(self, exported: bool) -> None:
        self.rounds: Counter[int] = Counter()
        self.tokens: Counter[int] = Counter()
        self.requests: Counter[int] = Counter()  # rounds of one request each, whose outcome is known
        self.eager_forwards: Counter[str] = Counter()
        self._prometheus = _counters() if exported else None

    def round(self, batch: int, width: int) -> None:
        self.rounds[width] += 1
        if self._prometheus:
            self._prometheus["rounds"].labels(width=width).inc()

    def outcome(self, width: int, accepted: Sequence[int]) -> None:
        """accepted: proposals accepted by each request."""
        emitted = sum(accepted) + len(accepted)
        self.tokens[width] += emitted
        self.requests[width] += len(accepted)
        if self._prometheus:
            self._prometheus["tokens"].labels(width=width).inc(emitted)
            self._prometheus["proposals"].labels(width=width).inc((width - 1) * len(accepted))

    def eager(self, what: str) -> bool:
        """True for the first one of its kind."""
        self.eager_forwards[what] += 1
        if self._prometheus:
            self._prometheus["eager"].labels(forward=what).inc()
        return self.eager_forwards[what] == 1

    def report(self) -> dict[str, Any]:
        lengths = {str(w): round(self.tokens[w] / n, 4) for w, n in sorted(self.requests.items()) if n}
        drafting = {int(w): length for w, length in lengths.items() if int(w) > 1}
        return {
            "rounds_by_width": {str(width): count for width, count in sorted(self.rounds.items())},
            "accept_length_by_width": lengths,
            "accept_rate_by_width": {str(w): round((length - 1) / (w - 1), 4) for w, length in drafting.items()},
            "eager_forwards": dict(self.eager_forwards),
        }


@cache
def _counters() -> dict[str, Any]:
    """Once per process. Imported late: prometheus_client picks its multi-process folder when it is imported."""
    from prometheus_client import Counter as Exported

    return {
        "rounds": Exported("sglang:dspine_rounds_total", "Decode rounds by verify width (1: plain decode).", ["width"]),
        "tokens": Exported("sglang:dspine_tokens_total", "Tokens that rounds of this width emitted.", ["width"]),
        "proposals": Exported("sglang:dspine_proposals_total", "Proposals verified at this width.", ["width"]),
        "eager": Exported(
            "sglang:dspine_eager_forwards_total",
            "Forwards outside a captured graph although there are some.",
            ["forward"],
        ),
    }
