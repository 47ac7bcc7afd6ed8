"""From two checkpoints and captures to their agreement."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..checkpoint.examine import Examination
from ..checkpoint.lazy import LazyWeights
from ..errors import DSpineError
from .captures import Captures
from .compare import Agreement, compare
from .draft import Drafted, checked_anchors, draft


def measure(
    before: Examination, after: Examination, captures: Captures, progress: Callable[[float], None] = lambda share: None
) -> Agreement:
    """Draft with both checkpoints behind the same anchors; the config of `before` counts.

    Memory: one layer in float32, beside captures and head.
    Raises:
        DSpineError: the captures are of another target, or too short for one block; a drafter's numbers overflow.
    """
    config = before.config
    assert config is not None  # it was converted
    anchors = checked_anchors(captures, config)

    def run(seen: Examination, name: str) -> Drafted:
        read = LazyWeights(seen, torch.float32)
        drafted = draft(config, read, captures, anchors, lambda count: progress(count / len(anchors) / 2))
        if not drafted.finite:
            raise DSpineError(
                f"{name}: drafts from numbers that are not finite, so nothing of it would be accepted; its weights are "
                "damaged, or too large (--no-agreement converts it all the same)"
            )
        return drafted

    return compare(captures, anchors, run(before, f"{before.folder}"), run(after, f"{before.folder} converted"))
