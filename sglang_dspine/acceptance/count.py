"""Accepted lengths as histograms, by arm, sequence and context length: everything else is computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ..evidence.ratio import Counts, Ratio, paired_ratio


def accepted_lengths(proposals: Tensor, truth: Tensor) -> Tensor:
    """Leading proposals that are right, and the bonus: [A, R] twice -> int64 [A], 1 .. R + 1."""
    return (proposals == truth).long().cumprod(1).sum(1) + 1


def truth_behind(tokens: Tensor, best: Tensor, at: Sequence[int], rows: int, against: str) -> Tensor:
    """What the proposals should be, [A, rows - 1]: the recorded tokens, or the target's best after each of them."""
    places = torch.tensor(at)[:, None] + torch.arange(rows - 1)
    return tokens[places + 1] if against == "recorded" else best[places]


@dataclass
class Lengths:
    """Of one arm: histogram[l] blocks of accepted length l, by (sequence, bucket)."""

    width: int
    histograms: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)  # int64 [width + 1]

    def add(self, sequence: str, bucket: int, lengths: Iterable[int]) -> None:
        histogram = self.histograms.setdefault((sequence, bucket), np.zeros(self.width + 1, np.int64))
        for length in lengths:
            histogram[min(length, self.width)] += 1

    def of(self, bucket: int | None = None) -> dict[str, np.ndarray]:
        """Histogram of each sequence, in one bucket or over all."""
        found: dict[str, np.ndarray] = {}
        for (sequence, here), histogram in self.histograms.items():
            if bucket is None or here == bucket:
                found[sequence] = found.get(sequence, 0) + histogram
        return found

    def total(self, bucket: int | None = None) -> np.ndarray:
        return sum(self.of(bucket).values(), np.zeros(self.width + 1, np.int64))

    @property
    def buckets(self) -> list[int]:
        return sorted({bucket for _, bucket in self.histograms})


def blocks(histogram: np.ndarray) -> int:
    return int(histogram.sum())


def mean_length(histogram: np.ndarray) -> float:
    """Accepted tokens over blocks, bonus included."""
    return float(histogram @ np.arange(len(histogram)) / histogram.sum()) if histogram.sum() else float("nan")


def conditional(histogram: np.ndarray) -> list[tuple[int, int]]:
    """(right, tried) of each proposal 1 .. width - 1: tried where all before it were right."""
    at_least = histogram[::-1].cumsum()[::-1]  # blocks of length l or more
    return [(int(at_least[i + 1]), int(at_least[i])) for i in range(1, len(histogram) - 1)]


def ratio(arm: Lengths, base: Lengths, bucket: int | None = None) -> Ratio | None:
    """Mean accepted length of an arm over the baseline's; None with fewer than two sequences in common."""
    a, b = arm.of(bucket), base.of(bucket)
    names = sorted(set(a) & set(b))
    if len(names) < 2:
        return None
    return paired_ratio(_counts([a[n] for n in names]), _counts([b[n] for n in names]))


def _counts(histograms: list[np.ndarray]) -> Counts:
    return Counts(
        np.array([h @ np.arange(len(h)) for h in histograms]), np.array([h.sum() for h in histograms])
    )  # fmt: skip
