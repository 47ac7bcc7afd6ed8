"""`sglang-dspine convert`: a drafter in FP8 or BF16."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from ..checkpoint.convert import Format, convert, converted_bytes
from ..checkpoint.fp8 import Rounding
from ..checkpoint.locate import locate_checkpoint
from ..checkpoint.staging import leftovers
from ..errors import DSpineError


def command(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Checkpoint folder or repository id, any layout.")],
    destination: Annotated[Path, typer.Argument(metavar="DST", help="New folder; never overwritten.")],
    format: Annotated[Format, typer.Option(help="fp8: linears and fc in e4m3. bf16: everything in BF16.")],
    rounding: Annotated[
        Rounding, typer.Option(help="Whose FP8 arithmetic: ieee of every GPU but Hopper, hopper of H100 and H200.")
    ] = Rounding.IEEE,
) -> None:
    """Convert a drafter checkpoint to FP8 or BF16; exit status 1 when it cannot be done."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the temporary folder is removed
    errors = Console(stderr=True)
    try:
        folder = locate_checkpoint(source)
        for path in leftovers(destination):
            errors.print(f"note: {path} was left by a conversion that was killed; remove it", markup=False)
        with _bar(errors) as bar:
            task = bar.add_task("convert", total=converted_bytes(folder, format), tensor="")
            made = convert(
                folder, destination, format, rounding, lambda name, size: bar.update(task, advance=size, tensor=name)
            )
    except (DSpineError, OSError) as error:
        errors.print(f"convert: {error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
    Console(soft_wrap=True).print(f"{made.destination}: {made.layout} layout", markup=False)


def _bar(console: Console) -> Progress:
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn(), TextColumn("{task.fields[tensor]}", markup=False))
    return Progress(*columns, console=console, transient=True)
