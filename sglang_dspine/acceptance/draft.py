"""From an arm's words to a drafter that proposes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from ..config import DraftConfig
from ..config.parse import load_config
from ..errors import DSpineError
from .arm import Arm
from .capture import Ends
from .dspine import DSpine
from .flash import is_flash, read_flash
from .rival import Rival


class Proposer(Protocol):
    def propose(self, taps: Tensor, tokens: Tensor, at: Sequence[int], rows: int) -> Tensor:
        """taps [S, taps·H], tokens [S], anchors at positions `at` -> int64 [A, rows - 1] on the CPU."""
        ...


@dataclass(frozen=True)
class Needs:
    """What is known of an arm before its weights are read."""

    taps: tuple[int, ...]
    hidden: int
    vocab: int
    width: int  # anchor included
    causal: bool  # one draft of the widest block serves all narrower ones


def needs_of(arm: Arm) -> Needs:
    """Raises CheckpointError when the folder holds no drafter."""
    if is_flash(arm.folder):
        shapes = read_flash(arm.folder).shapes
        return _needs(arm, shapes, causal=False)
    return _needs(arm, load_config(arm.folder), causal=True)


def _needs(arm: Arm, shapes: DraftConfig, causal: bool) -> Needs:
    width = arm.width or shapes.block_size
    return Needs(shapes.target_layer_ids, shapes.hidden_size, shapes.vocab_size, width, causal)


def open_proposer(arm: Arm, ends: Ends, dtype: torch.dtype, device: str) -> Proposer:
    """Raises DSpineError for a drafter of another target."""
    needs, (rows, hidden) = needs_of(arm), ends.head.shape
    if needs.hidden != hidden or needs.vocab > rows:
        raise DSpineError(
            f"{arm.folder}: a drafter of hidden size {needs.hidden} and {needs.vocab} tokens; the target has {hidden} "
            f"and {rows}: the drafter was trained for another"
        )
    return (Rival if is_flash(arm.folder) else DSpine)(arm, ends, dtype, device)


def jobs_of(arms: Sequence[Arm]) -> dict[Arm, list[Arm]]:
    """Drafts to make, and the arms each serves: what differs in width alone shares one draft where that is exact."""
    jobs: dict[Arm, list[Arm]] = {}
    for arm in arms:
        needs = needs_of(arm)
        same = [a for a in arms if replace(a, name="", width=None) == replace(arm, name="", width=None)]
        width = max(needs_of(a).width for a in same) if needs.causal else needs.width
        jobs.setdefault(replace(arm, name="", width=width), []).append(arm)
    return jobs
