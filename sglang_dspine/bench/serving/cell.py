"""What one load came to: speeds from counts, latencies as percentiles, and all that explains them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from .answer import Answer
from .load import Played

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Cell:
    """One arm under one number of users, once."""

    arm: str
    users: int
    repetition: int
    seed: int
    requests: int
    failed: int
    seconds: float
    completion_tokens: int
    tok_s: float | None  # all users, over the whole load
    user_tok_s: float | None  # of one user while it decodes: after the first tokens, until the last
    ttft_ms: dict[str, float]  # percentiles, {"50": …}
    itl_ms: dict[str, float]  # per token: the tokens of one arrival share its gap, as in sglang.bench_serving
    stall_ms: dict[str, float]  # per arrival: how long a reader waits for the next piece
    accepted_length: float | None  # tokens a round emits, bonus included
    prompt_tokens: int = 0
    cached_tokens: int = 0
    repetition_share: float | None = None
    rounds_of: dict[str, tuple[int, int]] = field(default_factory=dict)  # conversation: tokens of rounds, rounds
    accepted: tuple[int, ...] = ()  # rounds by accepted proposals
    widths: tuple[int, ...] = ()  # rounds by verify width
    machine: dict[str, Any] = field(default_factory=dict)
    errors: tuple[str, ...] = ()

    @property
    def cached_share(self) -> float | None:
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Cell:
        known = {f.name for f in fields(cls)}
        kept: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in value.items() if key in known}
        kept["rounds_of"] = {name: (int(t), int(r)) for name, (t, r) in value.get("rounds_of", {}).items()}
        return cls(**kept)


def summarise(played: Played, arm: str, users: int, repetition: int, seed: int, machine: dict[str, Any]) -> Cell:
    """Counts first, then their quotients; a failed request is counted and named, its tokens are not."""
    good = [a for a in played.answers if a.error is None and a.first is not None]
    bad = [a for a in played.answers if a.error is not None or a.first is None]
    tokens = sum(a.completion_tokens for a in good)
    after_first = sum(a.completion_tokens - a.first_tokens for a in good)
    decoding = sum(a.last - a.first for a in good if a.last is not None and a.first is not None)
    rounds = _rounds(good)
    emitted, count = (sum(column) for column in zip(*rounds.values(), strict=True)) if rounds else (0, 0)
    return Cell(
        arm=arm,
        users=users,
        repetition=repetition,
        seed=seed,
        requests=len(played.answers),
        failed=len(bad),
        seconds=played.seconds,
        completion_tokens=tokens,
        tok_s=tokens / played.seconds if tokens else None,
        user_tok_s=after_first / decoding if decoding > 0 else None,
        ttft_ms=percentiles([1e3 * (a.first - a.start) for a in good if a.first is not None]),
        itl_ms=percentiles([1e3 * gap / n for a in good for gap, n in a.gaps for _ in range(n)]),
        stall_ms=percentiles([1e3 * gap for a in good for gap, _ in a.gaps]),
        accepted_length=emitted / count if count else None,
        prompt_tokens=sum(a.prompt_tokens for a in good),
        cached_tokens=sum(a.cached_tokens for a in good),
        repetition_share=_mean([a.repetition for a in good]),
        rounds_of=rounds,
        accepted=_added(a.accepted for a in good),
        widths=_added(a.widths for a in good),
        machine=machine,
        errors=tuple(sorted({str(a.error or "no token came") for a in bad}))[:5],
    )


def percentiles(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    return {str(p): float(v) for p, v in zip(PERCENTILES, np.percentile(values, PERCENTILES), strict=True)}


def _rounds(answers: Sequence[Answer]) -> dict[str, tuple[int, int]]:
    """Per conversation: tokens that verify rounds emitted, and the rounds. The first token comes from the prefill."""
    found: dict[str, tuple[int, int]] = {}
    for a in answers:
        if a.rounds:
            tokens, rounds = found.get(a.conversation, (0, 0))
            found[a.conversation] = (tokens + a.completion_tokens - 1, rounds + a.rounds)
    return found


def _added(histograms: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Histograms of any length, added place by place."""
    total: list[int] = []
    for histogram in histograms:
        total += [0] * (len(histogram) - len(total))
        for place, count in enumerate(histogram):
            total[place] += count
    return tuple(total)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None and not math.isnan(v)]
    return sum(known) / len(known) if known else None
