"""`sglang-dspine bench-compare`: what changed between two runs, or between two arms of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ..errors import DSpineError

if TYPE_CHECKING:
    from ..bench.serving.results import Run
    from ..bench.serving.verdict import Verdict

RESULT = "Folder of `sglang-dspine bench`, or a file that `sglang.bench_serving --output-file` wrote."


def command(
    before: Annotated[Path, typer.Argument(help=RESULT)],
    after: Annotated[Path | None, typer.Argument(help=f"The other run. {RESULT}")] = None,
    base: Annotated[str | None, typer.Option(help="Arm to compare with; of the first run.")] = None,
    arm: Annotated[str | None, typer.Option(help="Arm to judge; of the second run, if there are two.")] = None,
    gate: Annotated[float, typer.Option(help="Range over median beyond which a cell is not quoted.")] = 0.05,
    out: Annotated[Path | None, typer.Option(help="Write the table as Markdown, too.")] = None,
    fail: Annotated[bool, typer.Option(help="Exit status 1 when something became slower or accepts less.")] = False,
) -> None:
    """Ratios with 95 % intervals, corrected by Holm; a cell whose spread exceeds the gate is shown, never quoted.

    Two runs: each arm against itself, or --arm against --base. One run: --arm against --base, else all against the
    first. Exit status 2 when there is nothing to compare.
    """
    from ..bench.serving.report import verdict_table

    console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
    try:
        title, verdicts = _compare(before, after, base, arm, gate, errors)
    except DSpineError as error:
        errors.print(f"bench-compare: {error}", style="red", markup=False)
        raise typer.Exit(2) from None
    text = f"# {title}\n\n{verdict_table(verdicts)}"
    console.print(text, markup=False, highlight=False)
    if out is not None:
        out.write_text(text, encoding="utf-8")
    raise typer.Exit(1 if fail and any(v.loss for v in verdicts) else 0)


def _compare(
    before: Path, after: Path | None, base: str | None, arm: str | None, gate: float, errors: Console
) -> tuple[str, list[Verdict]]:
    from ..bench.serving import verdict
    from ..bench.serving.results import read_run

    first = read_run(before)
    if after is None:
        other = _arm(first, base, "--base") if base else first.arms[0]
        tested = [_arm(first, arm, "--arm")] if arm else [name for name in first.arms if name != other]
        found = [v for name in tested for v in verdict.within(first, other, name, gate)]
        title = f"{', '.join(tested)} over {other}, {before}"
    else:
        second = read_run(after)
        _same_load(first, second, errors)
        if base or arm or not set(first.arms) & set(second.arms):
            other = _arm(first, base, "--base") if base else first.arms[0]
            name = _arm(second, arm, "--arm") if arm else second.arms[0]
            found, title = (
                verdict.crossed(first, other, second, name, gate),
                f"{name} of {after} over {other} of {before}",
            )
        else:
            found, title = verdict.between(first, second, gate), f"{after} over {before}"
    if not found:
        raise DSpineError("nothing to compare: the arms have no number of users in common")
    return title, found


def _arm(run: Run, name: str | None, flag: str) -> str:
    if name not in run.arms:
        raise DSpineError(f"{flag} {name}: {run.where} has {', '.join(run.arms)}")
    return name


def _same_load(first: Run, second: Run, errors: Console) -> None:
    prints = [run.header.get("workload", {}).get("fingerprint") for run in (first, second)]
    if None in prints:
        errors.print("note: whether both runs sent the same prompts is not known from these files", markup=False)
    elif prints[0] != prints[1]:
        errors.print("note: the runs sent other prompts or sampled otherwise; ratios mix that in", markup=False)
