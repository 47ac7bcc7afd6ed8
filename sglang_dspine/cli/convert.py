"""`sglang-dspine convert`: a drafter in FP8 or BF16, and what that changed."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from ..checkpoint.convert import Conversion, Format, convert, converted_bytes
from ..checkpoint.fp8 import Rounding
from ..checkpoint.locate import locate_checkpoint
from ..checkpoint.staging import leftovers
from ..errors import DSpineError

if TYPE_CHECKING:
    from ..agreement.captures import Captures
    from ..agreement.compare import Agreement


def command(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Checkpoint folder or repository id, any layout.")],
    destination: Annotated[Path, typer.Argument(metavar="DST", help="New folder; never overwritten.")],
    format: Annotated[Format, typer.Option(help="fp8: linears and fc in e4m3. bf16: everything in BF16.")],
    rounding: Annotated[
        Rounding, typer.Option(help="Whose FP8 arithmetic: ieee of every GPU but Hopper, hopper of H100 and H200.")
    ] = Rounding.IEEE,
    target: Annotated[
        str | None, typer.Option(help="Target that transformers can run: measures accepted length on its text.")
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option(help="With --target: what it continues, one prompt a line; else built-in ones.")
    ] = None,
    captures: Annotated[Path | None, typer.Option(help="Captures of a target, instead of --target.")] = None,
    device: Annotated[str, typer.Option(help="Where --target runs.")] = "cpu",
    agreement: Annotated[bool, typer.Option(help="Draft with both checkpoints and report what changed.")] = True,
) -> None:
    """Convert a drafter checkpoint to FP8 or BF16; exit status 1 when it cannot be done."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the temporary folder is removed
    errors = Console(stderr=True, soft_wrap=True)
    try:
        if target and captures:
            raise DSpineError("--target and --captures: both say what to measure on; pass one")
        folder = locate_checkpoint(source)
        for path in leftovers(destination):
            errors.print(f"note: {path} was left by a conversion that was killed; remove it", markup=False)
        with _bar(errors) as bar:
            made = _convert(bar, folder, destination, format, rounding)
            found = _measure(bar, made, _captures(bar, made, target, prompts, captures, device)) if agreement else None
        from ..agreement.report import show, write

        write(destination, made, found)
        show(made, found, Console(soft_wrap=True))
    except (DSpineError, OSError) as error:
        errors.print(f"convert: {error}", style="red", markup=False)
        raise typer.Exit(1) from None


def _convert(bar: Progress, source: Path, destination: Path, format: Format, rounding: Rounding) -> Conversion:
    task = bar.add_task("convert", total=converted_bytes(source, format), now="")
    return convert(source, destination, format, rounding, lambda name, size: bar.update(task, advance=size, now=name))


def _captures(
    bar: Progress, made: Conversion, target: str | None, prompts: Path | None, captures: Path | None, device: str
) -> Captures:
    from ..agreement.captures import load_captures, synthetic

    if captures is not None:
        return load_captures(captures)
    if target is None:
        return synthetic(made.config)
    from ..agreement.record import BUILT_IN, record

    texts = list(BUILT_IN) if prompts is None else _prompts(prompts)
    task = bar.add_task("target writes", total=len(texts), now="")
    layers, mask = made.config.target_layer_ids, made.config.mask_token_id
    return record(target, texts, layers, mask, device=device, progress=lambda: bar.advance(task))


def _prompts(path: Path) -> list[str]:
    from ..exactness.prompts import read_prompts

    found = read_prompts(path)
    if not all(isinstance(prompt, str) for prompt in found):
        raise DSpineError(f"{path}: expected prompts as text, found token ids")
    return [str(prompt) for prompt in found]


def _measure(bar: Progress, made: Conversion, captures: Captures) -> Agreement:
    from ..agreement.measure import measure

    task = bar.add_task("draft with both", total=1.0, now="")
    return measure(made.source, made.destination, captures, lambda share: bar.advance(task, share))


def _bar(console: Console) -> Progress:
    named, now = TextColumn("{task.description}"), TextColumn("{task.fields[now]}", markup=False)
    return Progress(
        named, BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), now, console=console, transient=True
    )
