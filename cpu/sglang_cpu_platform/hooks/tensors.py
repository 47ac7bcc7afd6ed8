"""A CPU tensor belongs to no stream and needs no pinning; SGLang calls both methods without asking."""

from __future__ import annotations

import torch


def install() -> None:
    torch.Tensor.record_stream = lambda self, stream: None  # type: ignore[method-assign]
    torch.Tensor.pin_memory = lambda self, device=None: self  # type: ignore[method-assign]
