"""`sglang-dspine convert`: a drafter in FP8 or BF16, and what that changed."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ..checkpoint.convert import Conversion, Format, Plan, convert, plan_conversion
from ..checkpoint.examine import Examination
from ..checkpoint.fp8 import Rounding
from ..checkpoint.locate import locate_checkpoint
from ..checkpoint.staging import leftovers
from ..errors import DSpineError
from .phases import Phases

if TYPE_CHECKING:
    from ..agreement.basis import TargetText
    from ..agreement.captures import Captures
    from ..agreement.compare import Agreement


def command(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Checkpoint folder or repository id, any layout.")],
    destination: Annotated[Path, typer.Argument(metavar="DST", help="New folder; never overwritten.")],
    format: Annotated[Format, typer.Option(help="fp8: linears and fc in e4m3. bf16: everything in BF16.")],
    rounding: Annotated[
        Rounding | None,
        typer.Option(
            help="Whose FP8 arithmetic: ieee of every GPU but Hopper, hopper of H100 and H200.",
            show_default="as SRC was rounded before, else ieee",
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Target that transformers can run: measures accepted length on its text.")
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option(help="With --target: what it continues, one prompt a line; else built-in ones.")
    ] = None,
    captures: Annotated[
        Path | None, typer.Option(help="File of captures of a target, instead of --target (docs/tuning.md).")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Where --target runs.", show_default="cpu")] = None,
    agreement: Annotated[bool, typer.Option(help="Draft with both checkpoints and report what changed.")] = True,
) -> None:
    """Convert a drafter checkpoint to FP8 or BF16; exit status 1 when it cannot be done.

    DST appears when all of it is there, the report of what changed too; a conversion that fails leaves nothing.
    """
    for ending in (signal.SIGTERM, signal.SIGHUP):  # so that the temporary folder is removed
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    errors = Console(stderr=True, soft_wrap=True)
    try:
        if not agreement and (target or prompts or captures or device):
            raise DSpineError("--no-agreement: then nothing is measured; leave out what says on what")
        plan = plan_conversion(locate_checkpoint(source), destination, format, rounding)
        if plan.seen.layout is format.layout:
            errors.print(
                f"note: {source} is in that layout already; every tensor is read and written anew", markup=False
            )
        measured_on = _basis(plan, target, prompts, captures, device) if agreement else None
        for path in leftovers(destination):
            errors.print(f"note: {path} was left by a conversion that was killed; remove it", markup=False)
        with Phases(errors).shown() as phases:
            made, found = _convert(phases, plan, measured_on)
    except (DSpineError, OSError) as error:
        errors.print(f"convert: {error}", style="red", markup=False)
        raise typer.Exit(1) from None
    _show(made, found, errors)


def _show(made: Conversion, found: Agreement | None, errors: Console) -> None:
    from ..agreement.report import NAME, show

    try:
        show(made, found, Console(soft_wrap=True))
        sys.stdout.flush()
    except OSError as error:
        where = made.destination / f"{NAME}.md"
        errors.print(
            f"convert: {made.destination} is complete, but its report could not be printed ({error}); it is in {where}",
            style="red",
            markup=False,
        )
        raise typer.Exit(1) from None


def _basis(
    plan: Plan, target: str | None, prompts: Path | None, captures: Path | None, device: str | None
) -> Captures | TargetText:
    from ..agreement.basis import basis

    return basis(plan.config, target, prompts, captures, device)


def _convert(
    phases: Phases, plan: Plan, measured_on: Captures | TargetText | None
) -> tuple[Conversion, Agreement | None]:
    """The target writes first: what it may fail at costs no conversion."""
    from ..agreement.basis import TargetText
    from ..agreement.report import texts

    found: Agreement | None = None
    if isinstance(measured_on, TargetText):
        advance = phases.begin(f"the target writes {len(measured_on.prompts)} texts", len(measured_on.prompts))
        measured_on = measured_on.record(lambda: advance(1))

    def report(made: Conversion, after: Examination) -> dict[str, str]:
        nonlocal found
        if measured_on is not None:
            found = _measure(phases, plan.seen, after, measured_on)
        return texts(made, found)

    advance = phases.begin("converting", plan.nbytes)
    made = convert(plan, lambda name, size: advance(size, now=name), report)
    return made, found


def _measure(phases: Phases, before: Examination, after: Examination, captures: Captures) -> Agreement:
    from ..agreement.measure import measure

    return measure(before, after, captures, phases.begin("drafting with both", 1.0))
