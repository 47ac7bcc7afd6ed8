"""Convert a random drafter of 27B shape to FP8 and back: time, peak memory, sizes, and whether the bits survive.

    python -m sglang_dspine.bench.conversion FOLDER [--keep]

No GPU. FOLDER, on a disk with 11 GB free, gets `bf16`, `fp8` and `again`; each conversion is the command that a user
runs, in a process of its own whose peak memory the kernel reports. Prints a table and writes FOLDER/conversion.json.
Exit status 1 if a conversion takes more than 2 GB above the largest tensor, a size is more than 1 % off, or FP8 -> BF16
-> FP8 changes a byte.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import typer

from ..checkpoint.convert import Format
from ..checkpoint.expected import stored_tensors
from ..checkpoint.layouts import Layout
from ..checkpoint.write import TensorWriter, plan_file
from ..config import DraftConfig, parse_config, render_config
from ..config.reference import MODEL_FILE
from .rounds.shapes import dspine

MOST_ABOVE = 2e9  # bytes of memory above the largest tensor
EXPECTED = {Format.BF16: 4.05e9, Format.FP8: 2.32e9}  # bytes of a checkpoint, dspine-spec
NEAR = 0.01


@dataclass(frozen=True)
class Run:
    """One conversion."""

    made: str
    seconds: float
    peak: int  # bytes of resident memory
    size: int  # bytes of the weights' file


def write_random(folder: Path, config: DraftConfig) -> int:
    """A drafter in layout 1, tensor by tensor; bytes of its largest tensor."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(render_config(config) | {"dtype": "bfloat16"}))
    wanted = {name: (shape, dtypes[0]) for name, (shape, dtypes) in stored_tensors(config, Layout.SPECFORGE).items()}
    plan = plan_file(folder / MODEL_FILE, wanted)
    with TensorWriter(folder / MODEL_FILE, plan) as writer:
        for name, stored in plan.items():
            writer.write(name, random_tensor(name, stored.shape))
    return max(stored.nbytes for stored in plan.values())


def random_tensor(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    if name == "transfer_ready":
        return torch.tensor(True)
    values = torch.randn(shape)
    if name == "transfer_codes":
        values = torch.nn.functional.normalize(values, dim=-1)
    elif len(shape) == 2:
        values *= shape[1] ** -0.5
    return values.to(torch.bfloat16)


def convert(source: Path, destination: Path, format: Format) -> Run:
    """Run the command; the kernel says what it took."""
    code = "import sys; from sglang_dspine.cli.main import app; sys.argv[0] = 'sglang-dspine'; app()"
    words = ["convert", str(source), str(destination), "--format", format.value, "--no-agreement"]
    begin = time.monotonic()
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", code, *words], os.environ)
    _, status, used = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status):
        raise typer.Exit(1)
    size = (destination / MODEL_FILE).stat().st_size
    return Run(f"{source.name} -> {destination.name}", time.monotonic() - begin, used.ru_maxrss * 1024, size)


def same_bytes(first: Path, second: Path) -> bool:
    with first.open("rb") as one, second.open("rb") as other:
        while True:
            a, b = one.read(1 << 24), other.read(1 << 24)
            if a != b:
                return False
            if not a:
                return True


def shortcomings(runs: list[Run], sizes: dict[Format, int], largest: int, same: bool) -> list[str]:
    """What does not hold."""
    found = [
        f"{run.made}: {run.peak / 1e9:.2f} GB, more than {(largest + MOST_ABOVE) / 1e9:.2f}"
        for run in runs
        if run.peak > largest + MOST_ABOVE
    ]
    for format, size in sizes.items():
        if abs(size / EXPECTED[format] - 1) > NEAR:
            found.append(f"{format.value}: {size / 1e9:.3f} GB, expected {EXPECTED[format] / 1e9:.2f}")
    return found if same else [*found, "FP8 -> BF16 -> FP8 changed bytes"]


def main(folder: Path, keep: bool = typer.Option(False, help="Leave the checkpoints.")) -> None:
    """Write, convert, convert back, compare."""
    torch.manual_seed(0)
    config = parse_config(dspine(), "27B shape")
    bf16, fp8, back, again = (folder / name for name in ("bf16", "fp8", "back", "again"))
    begin = time.monotonic()
    largest = write_random(bf16, config)
    print(f"random drafter written in {time.monotonic() - begin:.0f} s, largest tensor {largest / 1e9:.2f} GB")
    runs = [convert(bf16, fp8, Format.FP8), convert(fp8, back, Format.BF16), convert(back, again, Format.FP8)]
    same = same_bytes(fp8 / MODEL_FILE, again / MODEL_FILE)
    sizes = {Format.BF16: (bf16 / MODEL_FILE).stat().st_size, Format.FP8: runs[0].size}
    for run in runs:
        print(f"{run.made}: {run.seconds:.0f} s, peak memory {run.peak / 1e9:.2f} GB, {run.size / 1e9:.3f} GB")
    print(f"FP8 -> BF16 -> FP8: {'the same bytes' if same else 'DIFFERENT BYTES'}")
    failed = shortcomings(runs, sizes, largest, same)
    result = {"largest_tensor": largest, "runs": [asdict(run) for run in runs], "same": same, "failed": failed}
    (folder / "conversion.json").write_text(json.dumps(result, indent=1) + "\n")
    for path in () if keep else (bf16, fp8, back, again):
        shutil.rmtree(path)
    print("\n".join(failed) or "within all bounds")
    raise typer.Exit(1 if failed else 0)


if __name__ == "__main__":
    typer.run(main)
