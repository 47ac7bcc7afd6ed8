"""How far a result lies from the exact one, as a share of the exact one's size."""

from __future__ import annotations

import torch


def ratio_error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Root mean square of the difference over that of `exact`; infinite where anything is not finite."""
    if not found.isfinite().all():
        return float("inf")
    difference = (found.double() - exact.double()).square().mean().sqrt()
    return float(difference / exact.double().square().mean().sqrt())
