"""Non-finite target rows: repaired before anything reads them, counted, never the last vocabulary id by accident.

SGLang 0.5.23 emits the last vocabulary id for a NaN row of a sampled verify (report 1, sglang#35324).
"""

from __future__ import annotations

import torch


def repair_rows(logits: torch.Tensor) -> torch.Tensor:
    """Make every row of `logits` [N, V] usable, in place; finite rows stay as they are, bit for bit.

    -inf alone is legal (a mask). NaN and +inf become -inf; a row with nothing left becomes all zeros but its argmax
    stays the lowest id. Returns the bad rows as a bool tensor [N] on the same device (no host sync).
    """
    wrong = torch.isnan(logits) | (logits == float("inf"))
    empty = (wrong | (logits == float("-inf"))).all(-1)
    bad = wrong.any(-1) | empty
    logits.masked_fill_(wrong, float("-inf"))
    logits.masked_fill_(empty[:, None], 0.0)
    return bad
