"""A safetensors file written tensor by tensor, in any order.

The library's own writer wants every tensor in memory at once; a drafter has 4 GB of them. The header is known from
names, shapes and dtypes alone, so it is written first and each tensor then goes to its place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..headers import Stored

if TYPE_CHECKING:
    import torch


def plan_file(path: Path, wanted: Mapping[str, tuple[tuple[int, ...], str]]) -> dict[str, Stored]:
    """name -> (shape, dtype in safetensors' spelling), as the tensors a file will hold, in their order.

    Widest elements first: a reader that views the file's bytes needs every tensor aligned to its element size.
    """
    tensors = [Stored(path, name, shape, dtype) for name, (shape, dtype) in wanted.items()]
    return {t.name: t for t in sorted(tensors, key=lambda t: (-t.element_size, t.name))}


class TensorWriter:
    """Writes the tensors of a plan; complete when `close` returns."""

    def __init__(self, path: Path, plan: Mapping[str, Stored]) -> None:
        self.path, self.plan, self.places = path, plan, {}
        header: dict[str, object] = {"__metadata__": {"format": "pt"}}
        end = 0
        for name, stored in plan.items():
            begin, end = end, end + stored.nbytes
            self.places[name] = begin
            header[name] = {"dtype": stored.dtype, "shape": list(stored.shape), "data_offsets": [begin, end]}
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self.data = 8 + len(text)
        self.missing = set(plan)
        self.file = path.open("xb")
        self.file.write(len(text).to_bytes(8, "little") + text)
        self.file.truncate(self.data + end)  # a full disk shows here, not after minutes

    def write(self, name: str, tensor: torch.Tensor) -> None:
        """Put one tensor to its place; it must be what the plan says, and come once."""
        import torch

        stored = self.plan[name]
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        if tuple(tensor.shape) != stored.shape or flat.numel() != stored.nbytes:
            given = f"{tuple(tensor.shape)} {tensor.dtype}"
            raise ValueError(f"{name}: planned {stored.shape} {stored.dtype}, given {given}")
        self.missing.remove(name)
        self.file.seek(self.data + self.places[name])
        self.file.write(flat.numpy().data)

    def close(self) -> None:
        """Flush to the disk. Raises if a planned tensor never came."""
        if self.missing:
            raise ValueError(f"{self.path}: never written: {', '.join(sorted(self.missing))}")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()

    def __enter__(self) -> TensorWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.file.close()
