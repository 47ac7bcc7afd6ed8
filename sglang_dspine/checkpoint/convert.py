"""A checkpoint in another precision: read, rounded and written tensor by tensor."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import DraftConfig, render_config
from ..config.reference import MODEL_FILE
from ..errors import CheckpointError, DSpineError
from ..headers import Stored
from .examine import Examination, examine_headers
from .expected import is_fp8_linear, stored_tensors
from .fp8 import Rounding, quantise_rows
from .layouts import SCALE_SUFFIX, Layout
from .manifest import MANIFEST, check_manifest, file_entry, recorded_rounding, render_manifest, text_entry
from .parts import part_bytes
from .read import iter_examined
from .staging import check_destination, staging, write_text
from .write import TensorWriter, plan_file

if TYPE_CHECKING:
    import torch

Progress = Callable[[str, int], None]  # tensor name, bytes written for it
KEPT = (".md", ".txt", ".jinja", "")  # suffixes of files that travel along: licence, notice, model card
_BESIDE = 1 << 20  # bytes of everything beside the weights, at most


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
    rounding: Rounding | None  # None: nothing was rounded to FP8
    before: dict[str, int]
    after: dict[str, int]


Report = Callable[[Conversion, Examination], Mapping[str, str]]


@dataclass(frozen=True)
class Plan:
    """A conversion that nothing known beforehand stands against."""

    seen: Examination
    destination: Path
    format: Format
    rounding: Rounding | None
    tensors: dict[str, Stored]

    @property
    def config(self) -> DraftConfig:
        assert self.seen.config is not None  # or it had not been planned
        return self.seen.config

    @property
    def nbytes(self) -> int:
        """Bytes of tensors that will be written: what the progress adds up to."""
        return sum(stored.nbytes for stored in self.tensors.values())


def plan_conversion(source: Path, destination: Path, format: Format, rounding: Rounding | None = None) -> Plan:
    """Read the headers of `source`, any layout, and look at the place of `destination`; writes nothing.

    rounding: of FP8; None: as the source was rounded before, else IEEE.
    Raises:
        CheckpointError: the source would not load, or is not what its manifest says; every problem is named.
        DSpineError: the rounding is not the source's; the destination exists, lies in the source or cannot be made; the
            disk has no room.
    """
    seen = examine_headers(source)
    seen.problems += check_manifest(seen.folder)
    seen.raise_problems()
    assert seen.config is not None
    if destination.resolve().is_relative_to(seen.folder.resolve()) and not destination.exists():
        raise DSpineError(f"{destination}: lies inside {seen.folder}, which is only read; name a folder elsewhere")
    rounding = _rounding(seen.folder, format, rounding)
    plan = Plan(seen, destination, format, rounding, plan_file(destination / MODEL_FILE, _wanted(seen.config, format)))
    check_destination(destination, plan.nbytes + _BESIDE)
    return plan


def convert(
    plan: Plan, progress: Progress = lambda name, size: None, report: Report = lambda made, after: {}
) -> Conversion:
    """Write the new folder. Memory: one tensor and 0.2 GB. It appears when all of it is there, the report too.

    report: called with the weights written, in a folder that does not load yet; file name -> text to put beside them.
    Raises:
        CheckpointError: a value of the source is not finite or does not fit.
        DSpineError: the destination came into being since it was planned.
    """
    seen = plan.seen
    assert seen.layout is not None
    before, after = part_bytes(seen.tensors), part_bytes(plan.tensors)
    made = Conversion(
        seen.folder, plan.destination, plan.config, seen.layout, plan.format.layout, plan.rounding, before, after
    )
    with staging(plan.destination, plan.nbytes + _BESIDE) as folder:
        with TensorWriter(folder / MODEL_FILE, plan.tensors) as writer:
            for name, tensor in _converted(plan):
                writer.write(name, tensor)
                del tensor
                progress(name, plan.tensors[name].nbytes)
        _finish(folder, plan, report(made, _written(folder, plan)))
    return made


def _rounding(folder: Path, format: Format, asked: Rounding | None) -> Rounding | None:
    """Values on the grid of one rounding, rounded by the other, are what neither makes of the original."""
    if format is not Format.FP8:
        if asked is not None:
            raise DSpineError(f"--rounding {asked} says how FP8 is rounded; leave it out with --format {format.value}")
        return None
    before = recorded_rounding(folder)
    if asked is not None and before not in (None, str(asked)):
        raise DSpineError(
            f"{folder}: was rounded to FP8 with --rounding {before}, which --rounding {asked} would round once more; "
            "convert the checkpoint it was made from"
        )
    return asked or (Rounding(before) if before else Rounding.IEEE)


def _wanted(config: DraftConfig, format: Format) -> dict[str, tuple[tuple[int, ...], str]]:
    """Each tensor of the result; the first dtype a layout allows, BF16 before the other floats, is the one written."""
    return {name: (shape, dtypes[0]) for name, (shape, dtypes) in stored_tensors(config, format.layout).items()}


def _written(folder: Path, plan: Plan) -> Examination:
    """The new weights as their reader sees them, before there is a config.json."""
    tensors = {name: replace(stored, file=folder / MODEL_FILE) for name, stored in plan.tensors.items()}
    return Examination(folder, plan.seen.source, plan.config, plan.format.layout, tensors)


def _converted(plan: Plan) -> Iterator[tuple[str, torch.Tensor]]:
    import torch

    for name, tensor in iter_examined(plan.seen):
        narrow = tensor.to(torch.bfloat16)
        _check_range(plan.seen, name, tensor, narrow)
        del tensor
        if plan.rounding is not None and is_fp8_linear(name):
            values, scale = quantise_rows(narrow, plan.rounding)
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


def _finish(folder: Path, plan: Plan, report: Mapping[str, str]) -> None:
    """Everything beside the weights; config.json last, for without it the folder does not load."""
    _copy_documents(plan.seen.folder, folder)
    # SGLang takes a config without a dtype for float32, and serves that as float16
    config = json.dumps(render_config(plan.config) | {"dtype": "bfloat16"}, indent=1, sort_keys=True) + "\n"
    files = {path.name: file_entry(path) for path in sorted(folder.iterdir())} | {"config.json": text_entry(config)}
    result: dict[str, Any] = {"format": plan.format.value, "layout": str(plan.format.layout)}
    if plan.rounding is not None:
        result["rounding"] = str(plan.rounding)
    for name, text in report.items():
        write_text(folder / name, text)
    write_text(folder / MANIFEST, render_manifest(_provenance(plan.seen), result, files))
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
