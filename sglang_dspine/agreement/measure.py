"""From two checkpoint folders and captures to their agreement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from ..checkpoint.examine import examine_headers
from ..checkpoint.lazy import LazyWeights
from ..errors import DSpineError
from .captures import Captures
from .compare import Agreement, compare
from .draft import Drafted, anchors_of, draft


def measure(
    before: Path, after: Path, captures: Captures, progress: Callable[[float], None] = lambda share: None
) -> Agreement:
    """Draft with both checkpoints behind the same anchors.

    Memory: one layer in float32, beside captures and head.
    Raises:
        DSpineError: the captures are of another target, or too short for one block.
    """
    config = examine_headers(before).config
    assert config is not None  # it was converted
    captures.check(config)
    anchors = anchors_of(captures, config)
    if not anchors:
        raise DSpineError(f"captures: expected a text with {config.block_size} tokens written, found none so long")

    def run(folder: Path) -> Drafted:
        read = LazyWeights(examine_headers(folder), torch.float32)
        return draft(config, read, captures, anchors, lambda count: progress(count / len(anchors) / 2))

    return compare(captures, anchors, run(before), run(after))
