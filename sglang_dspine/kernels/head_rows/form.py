"""How a head is stored, told to the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .read import DENSE


@dataclass(frozen=True)
class StoredHead:
    """weight [V, ...]; a form without scales passes the weight in their place."""

    weight: torch.Tensor
    form: int = DENSE

    def arguments(self) -> dict[str, Any]:
        return {"head": self.weight, "scales": self.weight, "scale": self.weight, "head_stride": self.weight.stride(0)}

    def constants(self) -> dict[str, Any]:
        return {"FORM": self.form}
