"""The bridge of one layer: read-out, normalise, gate, write, residual add."""

from __future__ import annotations

import torch

from ..switch import use_kernels
from .naive import Injected, LayerBridge, inject_naive


def inject(residual: torch.Tensor, delta: torch.Tensor | None, anchor: torch.Tensor, weights: LayerBridge) -> Injected:
    """Inject into rows 1.. of h = residual + delta. residual, delta [N, w, H]; anchor [N]; see `naive`."""
    if not use_kernels(residual):
        return inject_naive(residual, delta, anchor, weights)
    from .plan import plan_injection

    launches, injected = plan_injection(residual, delta, anchor, weights)
    for launch in launches:
        launch.run()
    return injected
