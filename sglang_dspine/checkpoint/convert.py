"""A checkpoint in another precision: read, rounded and written tensor by tensor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import DraftConfig, render_config
from ..config.reference import MODEL_FILE
from ..errors import CheckpointError
from .examine import Examination, examine_headers
from .expected import is_fp8_linear, stored_tensors
from .fp8 import Rounding, quantise_rows
from .layouts import SCALE_SUFFIX, Layout
from .manifest import MANIFEST, check_manifest, file_entry, render_manifest, text_entry
from .parts import part_bytes
from .read import iter_examined
from .staging import staging, write_text
from .write import TensorWriter, plan_file

if TYPE_CHECKING:
    import torch

Progress = Callable[[str, int], None]  # tensor name, bytes written for it
KEPT = (".md", ".txt", ".jinja", "")  # suffixes of files that travel along: licence, notice, model card


class Format(str, Enum):
    """What `convert` writes."""

    FP8 = "fp8"  # layout 3: linears of the layers and fc in float8_e4m3fn, everything else BF16
    BF16 = "bf16"  # layout 1

    @property
    def layout(self) -> Layout:
        return Layout.FP8 if self is Format.FP8 else Layout.SPECFORGE


@dataclass(frozen=True)
class Conversion:
    """What was made of what; bytes by part of the drafter."""

    source: Path
    destination: Path
    config: DraftConfig
    source_layout: Layout
    layout: Layout
    rounding: Rounding
    before: dict[str, int]
    after: dict[str, int]


def convert(
    source: Path,
    destination: Path,
    format: Format,
    rounding: Rounding = Rounding.IEEE,
    progress: Progress = lambda name, size: None,
) -> Conversion:
    """Write the drafter of `source`, any layout, to the new folder `destination`.

    Memory: one tensor and 0.2 GB. The folder appears when it is complete.
    Raises:
        CheckpointError: the source would not load, or is not what its manifest says; every problem is named.
        DSpineError: the destination exists, or the disk has no room.
    """
    seen = examine_headers(source)
    seen.problems += check_manifest(seen.folder)
    seen.raise_problems()
    assert seen.config is not None and seen.layout is not None
    plan = plan_file(destination / MODEL_FILE, _wanted(seen.config, format.layout))
    need = sum(stored.nbytes for stored in plan.values())
    with staging(destination, need + (1 << 20)) as folder:
        with TensorWriter(folder / MODEL_FILE, plan) as writer:
            for name, tensor in _converted(seen, format, rounding):
                writer.write(name, tensor)
                del tensor
                progress(name, plan[name].nbytes)
        _finish(folder, seen, format, rounding)
    before, after = part_bytes(seen.tensors), part_bytes(plan)
    return Conversion(source, destination, seen.config, seen.layout, format.layout, rounding, before, after)


def converted_bytes(source: Path, format: Format) -> int:
    """Bytes of tensors that a conversion will write: what its progress adds up to."""
    seen = examine_headers(source)
    seen.raise_problems()
    assert seen.config is not None
    return sum(stored.nbytes for stored in plan_file(source, _wanted(seen.config, format.layout)).values())


def _wanted(config: DraftConfig, layout: Layout) -> dict[str, tuple[tuple[int, ...], str]]:
    """Each tensor of the result; the first dtype a layout allows, BF16 before the other floats, is the one written."""
    return {name: (shape, dtypes[0]) for name, (shape, dtypes) in stored_tensors(config, layout).items()}


def _converted(seen: Examination, format: Format, rounding: Rounding) -> Iterator[tuple[str, torch.Tensor]]:
    import torch

    for name, tensor in iter_examined(seen):
        narrow = tensor.to(torch.bfloat16)
        _check_range(seen, name, tensor, narrow)
        del tensor
        if format is Format.FP8 and is_fp8_linear(name):
            values, scale = quantise_rows(narrow, rounding)
            del narrow
            yield name, values
            yield name + SCALE_SUFFIX, scale
            del values
        else:
            yield name, narrow
            del narrow
    yield "transfer_ready", torch.tensor(True)


def _check_range(seen: Examination, name: str, tensor: torch.Tensor, narrow: torch.Tensor) -> None:
    """BF16 ends half a percent below float32: a larger number would become infinite."""
    if tensor.dtype != narrow.dtype and not bool(narrow.abs().amax().isfinite()):
        peak = tensor.abs().max().item()
        where = str(seen.tensors[name].file)
        raise CheckpointError(where, f"tensor {name} does not fit BF16", expected="at most 3.39e38", found=f"{peak:g}")


def _finish(folder: Path, seen: Examination, format: Format, rounding: Rounding) -> None:
    """Everything beside the weights; config.json last, for without it the folder does not load."""
    assert seen.config is not None and seen.source is not None
    _copy_documents(seen.folder, folder)
    # SGLang takes a config without a dtype for float32, and serves that as float16
    config = json.dumps(render_config(seen.config) | {"dtype": "bfloat16"}, indent=1, sort_keys=True) + "\n"
    files = {path.name: file_entry(path) for path in sorted(folder.iterdir())} | {"config.json": text_entry(config)}
    result: dict[str, Any] = {"format": format.value, "layout": str(format.layout)}
    if format is Format.FP8:
        result["rounding"] = str(rounding)
    write_text(folder / MANIFEST, render_manifest(_provenance(seen), result, files))
    write_text(folder / "config.json", config)


def _provenance(seen: Examination) -> dict[str, Any]:
    assert seen.source is not None
    weights = sorted({stored.file for stored in seen.tensors.values()})
    earlier = seen.folder / MANIFEST
    manifest = json.loads(earlier.read_text()) if earlier.is_file() else None
    sums = {} if manifest is None else manifest["files"]  # compared with the files when the conversion began
    files = {path.name: sums.get(path.name) or file_entry(path) for path in [Path(seen.source.where), *weights]}
    provenance: dict[str, Any] = {"name": seen.folder.resolve().name, "layout": str(seen.layout), "files": files}
    if manifest is not None:
        provenance["manifest"] = manifest
    return provenance


def _copy_documents(source: Path, folder: Path) -> None:
    """All but the report of an earlier conversion: the new folder gets its own (agreement/report.py)."""
    for path in sorted(source.iterdir()):
        if path.is_file() and not path.name.startswith(".") and path.suffix in KEPT and path.stem != "conversion":
            shutil.copyfile(path, folder / path.name)
