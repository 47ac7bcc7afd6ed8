"""The three layouts a drafter comes in."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from ..config.reference import TRANSFER_FILE
from ..headers import Stored

SCALE_SUFFIX = "_scale"  # layers.0.mlp.up_proj.weight -> layers.0.mlp.up_proj.weight_scale


class Layout(Enum):
    """How the tensors are stored; the numbers are the specification's."""

    SPECFORGE = 1  # codes beside the weights, one dtype throughout
    REFERENCE = 2  # codes in transfer.safetensors
    FP8 = 3  # linears and fc in float8_e4m3fn with a scale per output channel

    def __str__(self) -> str:
        return {1: "SpecForge", 2: "reference", 3: "FP8"}[self.value]


def detect_layout(tensors: Mapping[str, Stored]) -> Layout:
    """The layout of a checkpoint from its headers (`files.read_tensors`)."""
    codes = tensors.get("transfer_codes")
    if codes is not None and codes.file.name == TRANSFER_FILE:
        return Layout.REFERENCE
    if any(stored.dtype.startswith("F8_") for stored in tensors.values()):
        return Layout.FP8
    return Layout.SPECFORGE
