"""Tensors of a checkpoint, one at a time, under their canonical names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import DraftConfig
from .examine import Examination, examine_headers
from .layouts import SCALE_SUFFIX
from .validate import is_ignored
from .values import dequantise, read_checked

if TYPE_CHECKING:
    import torch


def load_checkpoint(
    folder: str | Path, dtype: torch.dtype | None = None
) -> tuple[DraftConfig, dict[str, torch.Tensor]]:
    """The whole drafter: its numbers and its tensors (`expected.expected_shapes`), on the CPU.

    Tensors keep their stored dtype (BF16 for the FP8 layout) unless `dtype` is given. Raises one
    CheckpointError with every problem found.
    """
    seen = examine_headers(folder)
    weights = dict(iter_examined(seen))
    if dtype is not None:
        weights = {name: tensor.to(dtype) for name, tensor in weights.items()}
    assert seen.config is not None  # or iter_examined had raised
    return seen.config, weights


def iter_checkpoint(folder: str | Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Canonical (name, tensor) pairs in name order, holding one tensor at a time.

    Headers are checked before the first pair. A tensor with faulty values is never yielded; the
    CheckpointError naming all of them comes where the iteration would end, so exhaust it.
    """
    yield from iter_examined(examine_headers(folder))


def iter_examined(
    seen: Examination, only: Callable[[str], bool] = lambda name: True
) -> Iterator[tuple[str, torch.Tensor]]:
    """`iter_checkpoint` of a checkpoint whose headers were read already; `only` picks tensors by canonical name."""
    seen.raise_problems()
    for name, stored in sorted(seen.tensors.items()):
        if is_ignored(name) or name.endswith(SCALE_SUFFIX) or not only(name):
            continue  # a scale is read together with its weight
        before = len(seen.problems)
        tensor = read_checked(name, stored, seen.problems)
        scale_place = seen.tensors.get(name + SCALE_SUFFIX)
        if scale_place is not None and tensor is not None:
            scale = read_checked(name + SCALE_SUFFIX, scale_place, seen.problems)
            tensor = None if scale is None else dequantise(tensor, scale)
        # the ready flag was checked above; it is no weight
        if tensor is not None and len(seen.problems) == before and name != "transfer_ready":
            yield name, tensor
        del tensor  # or two would be held while the next is read
    seen.raise_problems()
