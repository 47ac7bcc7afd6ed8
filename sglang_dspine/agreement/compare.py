"""Two checkpoints of one drafter behind the same anchors."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ..evidence.ratio import Counts, paired_ratio
from .captures import Captures
from .draft import Anchor, Drafted


@dataclass(frozen=True)
class Acceptance:
    """Accepted length, bonus included: 1 + leading proposals that are the target's own text."""

    before: float
    after: float
    ratio: float  # after / before
    low: float | None  # 95 % interval of the ratio, texts resampled; None for a single text
    high: float | None


@dataclass(frozen=True)
class Agreement:
    """Shares over all rows; the first proposals of the two behind every anchor, if not said otherwise."""

    source: str
    texts: int
    blocks: int
    rows: int
    candidates: float  # share of K candidates that both have
    top1: float  # rows with the same best candidate
    proposals: float  # rows with the same proposal
    leading: float  # mean number of leading proposals that are the same
    acceptance: Acceptance | None  # None without text of the target

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare(captures: Captures, anchors: list[Anchor], before: Drafted, after: Drafted) -> Agreement:
    blocks, rows, k = before.candidates.shape
    common = (before.candidates[..., :, None] == after.candidates[..., None, :]).any(-1).sum(-1)  # [A, R]
    same = before.tokens == after.tokens
    return Agreement(
        source=captures.source,
        texts=len({anchor.text for anchor in anchors}),
        blocks=blocks,
        rows=blocks * rows,
        candidates=float(common.sum() / (blocks * rows * k)),
        top1=float((before.candidates[..., 0] == after.candidates[..., 0]).float().mean()),
        proposals=float(same.float().mean()),
        leading=float(same.long().cumprod(1).sum(1).float().mean()),
        acceptance=_acceptance(captures, anchors, before.tokens, after.tokens) if captures.written else None,
    )


def _acceptance(captures: Captures, anchors: list[Anchor], before: Tensor, after: Tensor) -> Acceptance:
    rows = before.shape[1]
    text = torch.stack([captures.texts[a.text].tokens[a.at + 1 : a.at + 1 + rows] for a in anchors])
    lengths = [((tokens == text).long().cumprod(1).sum(1) + 1).double() for tokens in (before, after)]
    of_text = torch.tensor([anchor.text for anchor in anchors])
    several = len(of_text.unique()) > 1
    low, high = ratio_interval(lengths[0], lengths[1], of_text) if several else (None, None)
    means = [float(n.mean()) for n in lengths]
    return Acceptance(means[0], means[1], means[1] / means[0], low, high)


def ratio_interval(before: Tensor, after: Tensor, group: Tensor) -> tuple[float, float]:
    """95 % bootstrap interval of sum(after) / sum(before), whole groups resampled. [A] each; group int64."""
    names, place = group.unique(return_inverse=True)
    columns = torch.stack([after.double(), before.double(), torch.ones(len(group), dtype=torch.float64)])
    sums = torch.zeros(3, len(names), dtype=torch.float64).index_add_(1, place, columns).numpy()
    found = paired_ratio(Counts(sums[0], sums[2]), Counts(sums[1], sums[2]))
    return found.low, found.high
