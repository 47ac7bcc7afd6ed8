"""The golden vectors, case by case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file

VECTORS = Path(__file__).resolve().parents[1] / "data" / "vectors"


@dataclass(frozen=True)
class Case:
    """One context length of one drafter in one dtype; index it by the names of the vectors' README."""

    where: str  # "full f32.0"
    tensors: dict[str, torch.Tensor]

    def __getitem__(self, key: str) -> torch.Tensor:
        return self.tensors[key]

    @property
    def context_length(self) -> int:
        return self.tensors["target_features"].shape[0]


@cache
def _tensors(name: str) -> dict[str, torch.Tensor]:
    return load_file(VECTORS / name / "vectors.safetensors")


def contexts(name: str, dtype: str) -> Iterator[Case]:
    """The cases of drafter `name` ("full" or "window") in `dtype` ("f64" or "f32")."""
    everything = _tensors(name)
    for i in range(3):
        prefix = f"{dtype}.{i}."
        yield Case(
            f"{name} {prefix[:-1]}", {k[len(prefix) :]: v for k, v in everything.items() if k.startswith(prefix)}
        )
