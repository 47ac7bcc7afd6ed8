"""`sglang-dspine accept`: drafters on the same anchors of recorded text, offline."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..errors import DSpineError

ARM_HELP = (
    "'NAME FOLDER [width=N] [window=N] [bridge=full|zeroed|last] [fp8]', a DSpine, DFlash, DFlash2 or DSpark drafter. "
    "The first is the baseline."
)


class Against(str, Enum):
    RECORDED = "recorded"  # the text as it stands
    ARGMAX = "argmax"  # the target's best token after each recorded one


class Dtype(str, Enum):
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


def command(
    out: Annotated[Path, typer.Argument(help="Folder for counts and reports; a run that was stopped goes on there.")],
    texts: Annotated[list[Path], typer.Argument(help="Conversations (*.jsonl, OpenAI-style) or plain text.")],
    target: Annotated[str, typer.Option(help="Target that transformers loads: a folder or repository id.")],
    arm: Annotated[list[str], typer.Option(help=ARM_HELP)],
    cache: Annotated[Path | None, typer.Option(help="Folder for captures; OUT/captures if not given.")] = None,
    anchors: Annotated[int, typer.Option(min=1, help="Per sequence and context length.")] = 32,
    buckets: Annotated[str, typer.Option(help="Edges of the context lengths.")] = "0,4096,8192,16384,24576,32768",
    against: Annotated[Against, typer.Option(help="What a proposal must equal.")] = Against.RECORDED,
    new_tokens: Annotated[
        int, typer.Option("--continue", min=0, help="Let the target continue prompts by so many greedy tokens.")
    ] = 0,
    longest: Annotated[int, typer.Option(min=32, help="Tokens of a sequence, at most.")] = 32768,
    dtype: Annotated[Dtype, typer.Option(help="Of target and drafters.")] = Dtype.FLOAT32,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Compare drafters' accepted lengths, paired and teacher-forced: ratios with 95 % intervals over conversations."""
    console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
    try:
        from ..acceptance.anchor import check_edges
        from ..acceptance.arm import parse_arms
        from ..acceptance.report import render, write_report
        from ..acceptance.run import Settings, run

        edges = check_edges([int(edge) for edge in buckets.split(",") if edge.strip().isdecimal()])
        settings = Settings(
            target, parse_arms(arm), tuple(texts), out, cache or out / "captures", anchors, edges, against.value,
            new_tokens, longest, dtype.value, device,
        )  # fmt: skip
        with _bar(errors) as bar:
            tasks: dict[str, int] = {}

            def progress(what: str, done: int, total: int) -> None:
                if what not in tasks:
                    tasks[what] = bar.add_task(what, total=total)
                bar.update(tasks[what], completed=done)  # type: ignore[arg-type]

            measured = run(settings, progress)
        written = write_report(measured)
        console.print(render(measured), markup=False, highlight=False)
        console.print(f"written: {' '.join(map(str, written))}", markup=False, highlight=False)
    except (DSpineError, OSError) as error:
        errors.print(f"accept: {error}", style="red", markup=False)
        raise typer.Exit(1) from None


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)
