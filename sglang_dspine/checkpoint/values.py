"""One tensor's values: read, checked, dequantised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import CheckpointError
from ..headers import Stored, unreadable
from .expected import FLOATS, FP8
from .validate import check_values

if TYPE_CHECKING:
    import torch

READABLE = (*FLOATS, *FP8, "BOOL")  # other dtypes are refused by their headers


def read_checked(name: str, stored: Stored, problems: list[CheckpointError]) -> torch.Tensor | None:
    """The tensor as stored, on the CPU; what is wrong with its values is appended to `problems`."""
    from safetensors import SafetensorError, safe_open

    if stored.dtype not in READABLE:
        return None
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
