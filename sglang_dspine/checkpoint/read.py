"""Tensors of a checkpoint, one at a time, under their canonical names."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import DraftConfig, load_config
from ..errors import CheckpointError
from ..headers import Stored, unreadable
from .files import read_tensors
from .layouts import SCALE_SUFFIX, detect_layout
from .validate import check_headers, check_values, is_ignored

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)


def load_checkpoint(
    folder: str | Path, dtype: torch.dtype | None = None
) -> tuple[DraftConfig, dict[str, torch.Tensor]]:
    """The whole drafter: its numbers and its tensors (`expected.expected_shapes`), on the CPU.

    Tensors keep their stored dtype (BF16 for the FP8 layout) unless `dtype` is given. Raises one
    CheckpointError with every problem found.
    """
    weights = dict(iter_checkpoint(folder))
    if dtype is not None:
        weights = {name: tensor.to(dtype) for name, tensor in weights.items()}
    return load_config(folder), weights


def iter_checkpoint(folder: str | Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Canonical (name, tensor) pairs in name order, holding one tensor at a time.

    Headers are checked before the first pair. A tensor with faulty values is never yielded; the
    CheckpointError naming all of them comes where the iteration would end, so exhaust it.
    """
    folder = Path(folder)
    config = load_config(folder)
    tensors, problems = read_tensors(folder)
    if tensors:
        problems += check_headers(folder, config, detect_layout(tensors), tensors)
    if problems:
        raise CheckpointError.together(str(folder), problems)
    for name, tensor in read_values(tensors, problems):
        if tensor is not None:
            yield name, tensor
    if problems:
        raise CheckpointError.together(str(folder), problems)


def read_values(
    tensors: Mapping[str, Stored], problems: list[CheckpointError]
) -> Iterator[tuple[str, torch.Tensor | None]]:
    """Read, check and dequantise each weight; None stands for one whose problems were appended.

    The ready flag and the scales are checked here too but are no weights, so they are not yielded.
    """
    for name, stored in sorted(tensors.items()):
        if is_ignored(name):
            logger.info("%s: tensor %s only repeats config.json and is not read", stored.file, stored.name)
            continue
        if name.endswith(SCALE_SUFFIX):
            continue  # read together with its weight
        parts = [(name, stored)]
        if name + SCALE_SUFFIX in tensors:
            parts.append((name + SCALE_SUFFIX, tensors[name + SCALE_SUFFIX]))
        before = len(problems)
        values = [_read(part, place, problems) for part, place in parts]
        if len(problems) > before:
            yield name, None
        elif name != "transfer_ready":
            yield name, dequantise(*values) if len(values) == 2 else values[0]  # type: ignore[arg-type]


def _read(name: str, stored: Stored, problems: list[CheckpointError]) -> torch.Tensor | None:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(stored.file, framework="pt") as file:
            tensor = file.get_tensor(stored.name)
    except (SafetensorError, OSError) as error:
        problems.append(unreadable(stored.file, error))
        return None
    problems += check_values(name, stored, tensor)
    return tensor


def dequantise(weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """FP8 weight [out, in] times its scale [out, 1] in float32, rounded once to BF16 [out, in]."""
    import torch

    return (weight.float() * scale).to(torch.bfloat16)
