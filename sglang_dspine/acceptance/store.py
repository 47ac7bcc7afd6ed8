"""Captures on disk: one safetensors file a sequence, named by what decides its content; written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..checkpoint.fingerprint import fingerprint
from .capture import Captured, Ends


class Store:
    """Captures of one target, in one dtype, at given taps. Size: S x taps x H numbers a sequence."""

    def __init__(self, folder: Path, target: str, dtype: str, taps: Sequence[int]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.taps = folder, list(taps)
        self.key = f"{identity(target)} {dtype}"

    def path(self, ids: Sequence[int]) -> Path:
        return self.folder / f"{_hash(self.key, self.taps, list(ids))}.safetensors"

    @property
    def ends_path(self) -> Path:
        return self.folder / f"ends-{_hash(self.key)}.safetensors"

    def has(self, ids: Sequence[int]) -> bool:
        return self.path(ids).exists()

    def save(self, ids: Sequence[int], captured: Captured) -> None:
        _save(self.path(ids), {"tokens": captured.tokens, "taps": captured.taps, "best": captured.best})

    def load(self, ids: Sequence[int]) -> Captured | None:
        """None where there is none, or where a file is damaged: it is captured again then."""
        try:
            tensors = load_file(self.path(ids))
            return Captured(tensors["tokens"], tensors["taps"], tensors["best"])
        except (OSError, SafetensorError, KeyError):
            self.path(ids).unlink(missing_ok=True)
            return None

    def text_path(self, ids: Sequence[int], count: int) -> Path:
        return self.folder / f"text-{_hash(self.key, list(ids), count)}.json"

    def save_text(self, ids: Sequence[int], count: int, whole: Sequence[int]) -> None:
        draft = self.text_path(ids, count).with_suffix(f".{os.getpid()}.part")
        draft.write_text(json.dumps(list(whole)))
        draft.rename(self.text_path(ids, count))

    def load_text(self, ids: Sequence[int], count: int) -> tuple[int, ...] | None:
        """What the target made of `ids`, if it was asked before."""
        path = self.text_path(ids, count)
        return tuple(json.loads(path.read_text())) if path.exists() else None

    def save_ends(self, ends: Ends) -> None:
        _save(self.ends_path, {"embed": ends.embed, "head": ends.head})

    def load_ends(self) -> Ends:
        tensors = load_file(self.ends_path)
        return Ends(tensors["embed"], tensors["head"])


def identity(model: str) -> str:
    """A folder's fingerprint; a repository id as it is."""
    return fingerprint(Path(model)) if Path(model).is_dir() else model


def _save(path: Path, tensors: dict[str, Tensor]) -> None:
    draft = path.with_suffix(f".{os.getpid()}.part")
    save_file({name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}, draft)
    draft.rename(path)


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def dtype_named(name: str) -> torch.dtype:
    return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[name]
