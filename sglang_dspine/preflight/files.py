"""Are the weight files of a folder all there and whole? Only their headers are read."""

from __future__ import annotations

import json
from pathlib import Path

INDEX = "model.safetensors.index.json"


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights, present or not; empty when there are none. Raises ValueError on a bad index."""
    index = folder / INDEX
    if index.is_file():
        try:
            placed = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            return sorted({folder / str(name) for name in placed})
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise ValueError(f"{INDEX} is no index of weight files ({error!r})") from None
    return sorted(folder.glob("*.safetensors"))


def weight_bytes(folder: Path) -> int:
    """Sum over the files that are there."""
    return sum(path.stat().st_size for path in weight_files(folder) if path.is_file())


def incomplete(folder: Path) -> list[str]:
    """One sentence for every file that is missing or damaged; empty when all is well."""
    try:
        files = weight_files(folder)
    except ValueError as error:
        return [str(error)]
    if not files:
        return ["no *.safetensors file"]
    return [f"{path.name} {trouble}" for path in files if (trouble := _trouble(path))]


def _trouble(path: Path) -> str:
    """What is wrong with one safetensors file: 8 bytes of header length, a JSON header, then the values."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            if start == b"version ":
                return "is a Git LFS pointer, not the weights"
            length = int.from_bytes(start, "little")
            if not 2 <= length <= size - 8:
                return f"is cut short or no safetensors file ({size} bytes)"
            header = json.loads(file.read(length))
        ends = (entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
        whole = 8 + length + max(ends, default=0)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "is no safetensors file"
    return "" if size == whole else f"has {size} bytes, its header says {whole}"
