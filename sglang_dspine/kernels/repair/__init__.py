"""Rows of logits that are no numbers made usable."""

from __future__ import annotations

import torch

from ..switch import use_kernels
from .naive import repair_naive


def repair(logits: torch.Tensor, most: torch.Tensor) -> None:
    """In place. logits [R, V]; most [R]: their `amax`. A healthy row is not read again; see `naive`."""
    if not use_kernels(logits):
        repair_naive(logits, most)
        return
    from .plan import plan_repair

    for launch in plan_repair(logits, most):
        launch.run()
