"""Weights read from a checkpoint when they are asked for, a few at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..headers import Stored
from .examine import Examination
from .layouts import SCALE_SUFFIX
from .values import dequantise

if TYPE_CHECKING:
    import torch


class LazyWeights:
    """BF16 values of a checkpoint whose loading already checked them; nothing is kept."""

    def __init__(self, seen: Examination, dtype: torch.dtype | None = None, device: str | torch.device = "cpu") -> None:
        """dtype: of every tensor handed out; as stored (BF16 where FP8 is stored) if None."""
        seen.raise_problems()
        self.tensors, self.dtype, self.device = seen.tensors, dtype, device

    def __call__(self, *prefixes: str) -> dict[str, torch.Tensor]:
        """All weights whose canonical name begins with one of `prefixes`."""
        names = sorted(name for name in self.tensors if name.startswith(prefixes) and not name.endswith(SCALE_SUFFIX))
        return {name: self._weight(name) for name in names}

    def is_fp8(self, name: str) -> bool:
        """Whether the weight is stored in FP8 (and handed out dequantised)."""
        return name + SCALE_SUFFIX in self.tensors

    def rows(self, name: str, ids: list[int]) -> torch.Tensor:
        """Some rows of one tensor that is not FP8: [len(ids), ...]."""
        import torch
        from safetensors import safe_open

        stored = self.tensors[name]
        with torch.device("cpu"), safe_open(stored.file, framework="pt") as file:
            part = file.get_slice(stored.name)
            return self._cast(torch.cat([part[i : i + 1] for i in ids]))

    def _weight(self, name: str) -> torch.Tensor:
        weight, scale = self._read(self.tensors[name]), self.tensors.get(name + SCALE_SUFFIX)
        return self._cast(weight if scale is None else dequantise(weight, self._read(scale)))

    def _read(self, stored: Stored) -> torch.Tensor:
        import torch
        from safetensors import safe_open

        # files are mapped on the CPU, whatever default device the caller has set
        with torch.device("cpu"), safe_open(stored.file, framework="pt") as file:
            return file.get_tensor(stored.name).to(self.device)

    def _cast(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(device=self.device, dtype=self.dtype)
