"""From two checkpoints and captures to their agreement."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..checkpoint.examine import Examination
from ..checkpoint.lazy import LazyWeights
from .captures import Captures
from .compare import Agreement, compare
from .draft import Drafted, checked_anchors, draft


def measure(
    before: Examination, after: Examination, captures: Captures, progress: Callable[[float], None] = lambda share: None
) -> Agreement:
    """Draft with both checkpoints behind the same anchors; the config of `before` counts.

    Memory: one layer in float32, beside captures and head.
    Raises:
        DSpineError: the captures are of another target, or too short for one block.
    """
    config = before.config
    assert config is not None  # it was converted
    anchors = checked_anchors(captures, config)

    def run(seen: Examination) -> Drafted:
        read = LazyWeights(seen, torch.float32)
        return draft(config, read, captures, anchors, lambda count: progress(count / len(anchors) / 2))

    return compare(captures, anchors, run(before), run(after))
