"""Accepted lengths drawn from a given profile instead of found: for timing servers whose weights mean nothing.

`DSPINE_SIMULATE_ACCEPTANCE=0.8,0.85,0.87` is the chance that a proposal is accepted once all before it were, from
position 1; the last one stands for all later positions. The text is wrong then, and the log says so.
"""

from __future__ import annotations

import logging
import os

import torch

from ..errors import FlagError
from .decide import Decision, commit_row

logger = logging.getLogger(__name__)
VARIABLE = "DSPINE_SIMULATE_ACCEPTANCE"


def read_profile(text: str | None = None) -> tuple[float, ...]:
    """The profile of the environment; empty when nothing is simulated. Raises FlagError."""
    words = (os.environ.get(VARIABLE, "") if text is None else text).split(",")
    try:
        profile = tuple(float(word) for word in words if word.strip())
    except ValueError:
        profile = (-1.0,)
    if any(not 0 <= p <= 1 for p in profile):
        raise FlagError(f"{VARIABLE}={','.join(words)}: expected probabilities from 0 to 1, as in 0.8,0.85")
    if profile:
        logger.warning("DSPINE: %s: accepted lengths are SIMULATED and the text is WRONG; timing only", VARIABLE)
    return profile


class Simulation:
    """Replaces the accepted length of every decision."""

    def __init__(self, profile: tuple[float, ...], widest: int, device: torch.device | str) -> None:
        full = [profile[min(i, len(profile) - 1)] for i in range(max(widest - 1, 1))]
        self.profile = torch.tensor(full, dtype=torch.float32, device=device)

    def __call__(self, tokens: torch.Tensor, decision: Decision) -> Decision:
        """tokens [N, w]."""
        n, w = tokens.shape
        kept = torch.rand(n, w - 1, device=tokens.device) < self.profile[: w - 1]
        accepted = kept.int().cumprod(1).sum(1)
        return Decision(accepted, decision.bonus, commit_row(tokens, accepted, decision.bonus))
