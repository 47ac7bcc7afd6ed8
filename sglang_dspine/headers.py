"""What a safetensors file holds, from its header alone (no tensor is read, torch is not needed)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .errors import CheckpointError

_BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "BF16": 2, "F16": 2, "I16": 2, "U16": 2}
_BYTES |= {"F32": 4, "I32": 4, "U32": 4, "F64": 8, "I64": 8, "U64": 8}


@dataclass(frozen=True)
class Stored:
    """One tensor as its file declares it."""

    file: Path
    name: str  # the name in the file, prefix included
    shape: tuple[int, ...]
    dtype: str  # safetensors spelling: BF16, F32, F8_E4M3, BOOL ...

    @property
    def element_size(self) -> int:
        """Bytes of one element; 0 for a dtype that no drafter has."""
        return _BYTES.get(self.dtype, 0)

    @property
    def nbytes(self) -> int:
        size = self.element_size
        for extent in self.shape:
            size *= extent
        return size


def read_header(path: Path) -> dict[str, Stored]:
    """Every tensor of one safetensors file by its name in the file.

    Raises CheckpointError for a file that is missing, cut short or no safetensors file at all.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            stored = {}
            for name in file.keys():  # noqa: SIM118  (a safe_open handle is no mapping)
                tensor = file.get_slice(name)
                stored[name] = Stored(path, name, tuple(tensor.get_shape()), tensor.get_dtype())
            return stored
    except (SafetensorError, OSError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> CheckpointError:
    """The error for a weight file that cannot be opened, with the likeliest cause as the hint."""
    if not path.is_file():
        return CheckpointError(str(path), "no such file", hint="download the checkpoint completely")
    if isinstance(error, PermissionError):
        return CheckpointError(str(path), "may not be read", hint="check the file's permissions")
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(40)
    if start.startswith(b"version https://git-lfs"):
        hint = "this is a Git LFS pointer: run `git lfs pull` in the checkpoint's folder"
    else:
        hint = "the file is cut short or damaged: download it again"
    found = f"{size} bytes that do not parse ({error})"
    return CheckpointError(str(path), "unreadable", expected="a whole safetensors file", found=found, hint=hint)
