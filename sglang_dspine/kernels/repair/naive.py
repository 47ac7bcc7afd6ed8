"""Rows of logits that are no numbers, in plain torch.

| name | shape | at 27B | meaning |
|---|---|---|---|
| logits | [R, V] | [8..512, 248320] | the target's, changed in place |
| most | [R] | | the largest value of each row as `amax` finds it: NaN over everything, +inf over every number |
"""

from __future__ import annotations

import torch


def repair_naive(logits: torch.Tensor, most: torch.Tensor) -> None:
    """NaN and +inf become -inf, a row with nothing left becomes all zeros; rows whose `most` is a number stay."""
    lowest = float("-inf")
    logits.nan_to_num_(nan=lowest, posinf=lowest, neginf=lowest)
    logits.masked_fill_((logits.amax(-1) == lowest)[:, None], 0.0)
