"""A CPU tensor belongs to no stream: `record_stream`, called by the drafting workers, has nothing to do."""

from __future__ import annotations

import torch


def install() -> None:
    torch.Tensor.record_stream = lambda self, stream: None  # type: ignore[method-assign]
