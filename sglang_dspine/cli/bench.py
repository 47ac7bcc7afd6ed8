"""`sglang-dspine bench`: several ways to serve one target, under the same load, in turns on one machine."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..errors import DSpineError
from ..serve.settings import KEY_VARIABLES

if TYPE_CHECKING:
    from ..bench.serving.run import Plan
    from ..evidence.recorded import Recorded

ARM_HELP = (
    "A way to serve, the first being the baseline: NAME, or 'NAME DSPINE=/drafter VARIABLE=VALUE --flag ...', "
    "or 'NAME url=http://host:port'. DFLASH= and DSPARK= likewise."
)


def command(
    out: Annotated[Path, typer.Argument(help="New folder for raw results, CSV, Markdown and plots.")],
    arm: Annotated[list[str], typer.Option(help=ARM_HELP)],
    extra: Annotated[list[str] | None, typer.Argument(help="After --: SGLang arguments of every arm.")] = None,
    target: Annotated[Path | None, typer.Option(help="Target to serve; not needed when every arm has url=.")] = None,
    users: Annotated[str, typer.Option(help="Users at once, separated by commas.")] = "1,4,8,16,32",
    repetitions: Annotated[int, typer.Option("-n", "--repetitions", min=1, help="Cells of each kind.")] = 5,
    turns: Annotated[Path | None, typer.Option(help="Recorded turns, OpenAI-style JSONL; else synthetic ones.")] = None,
    conversations: Annotated[int, typer.Option(min=1, help="Of the synthetic workload.")] = 32,
    depth: Annotated[int, typer.Option(min=1, help="Turns a synthetic conversation.")] = 3,
    characters: Annotated[int, typer.Option(min=64, help="New text per synthetic turn.")] = 4000,
    new_tokens: Annotated[int, typer.Option(min=2, help="Tokens an answer may have.")] = 512,
    temperature: Annotated[float, typer.Option(min=0.0)] = 0.0,
    top_p: Annotated[float, typer.Option(min=0.0, max=1.0)] = 1.0,
    top_k: Annotated[int, typer.Option(help="-1: all tokens.")] = -1,
    ignore_eos: Annotated[bool, typer.Option(help="Answer to the full length.")] = False,
    seed: Annotated[int, typer.Option(help="Of the first repetition; each next one adds 1000.")] = 1234,
    cold: Annotated[bool, typer.Option(help="Empty the prefix cache before every cell.")] = False,
    one_at_a_time: Annotated[
        bool, typer.Option(help="Only one server up at a time; restarted for each visit.")
    ] = False,
    gate: Annotated[float, typer.Option(help="Range over median beyond which a cell is not quoted.")] = 0.05,
    start_limit: Annotated[float, typer.Option(help="Seconds a server may take to come up.")] = 600,
    api_key: Annotated[str | None, typer.Option(envvar=KEY_VARIABLES, help="Key of servers given by url=.")] = None,
) -> None:
    """Measure arms in turns (A B B A): tok/s, latencies, accepted length, cache hits, memory, clocks.

    Exit status 1 when a run could not be finished: what was measured until then stays in OUT.
    """
    from ..bench.serving.arm import parse_arms
    from ..bench.serving.report import render, write_report
    from ..bench.serving.results import read_run
    from ..bench.serving.run import Plan, Told, run
    from ..bench.serving.servers import Launch, Servers
    from ..serve.settings import Settings

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are stopped
    console, errors = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)
    try:
        sampling = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
        sampling |= {"max_new_tokens": new_tokens, "ignore_eos": ignore_eos}
        recorded, source = _conversations(turns, conversations, depth, characters)
        plan = Plan(
            parse_arms(arm), _numbers(users), repetitions, seed, sampling, recorded, source, cold, api_key
        )  # fmt: skip
        model = None if target is None else str(target)
        launch = Launch(model, tuple(extra or ()), out, not one_at_a_time, Settings(start_limit_s=start_limit))
        with _bar(errors) as bar:
            task = bar.add_task("starting", total=_requests(plan))

            def waiting(what: str) -> Callable[[float, str], None]:
                return lambda seconds, line: bar.update(task, description=f"{what} {seconds:.0f} s")

            told = Told(turn=lambda: bar.advance(task), phase=lambda text: bar.update(task, description=text))
            with Servers(launch, plan.arms, waiting) as servers:
                run(plan, servers, out, told)
        result = read_run(out)
        written = write_report(result, out, gate)
        console.print(render(result, gate), markup=False, highlight=False)
        console.print(f"written: {' '.join(map(str, written))}", markup=False, highlight=False)
    except (DSpineError, OSError) as error:
        errors.print(getattr(error, "log", ""), markup=False)  # a server's last lines
        errors.print(f"bench: {error}", style="red", markup=False)
        raise typer.Exit(1) from None


def _conversations(turns: Path | None, conversations: int, depth: int, characters: int) -> tuple[list[Recorded], str]:
    from ..bench.serving.synthetic import synthetic
    from ..evidence.recorded import read_recorded

    if turns is not None:
        return read_recorded(turns), turns.name
    return synthetic(conversations, depth, characters), "synthetic agent workload"


def _numbers(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(word) for word in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1 or len(set(found)) < len(found):
        raise DSpineError(f"--users {text}: expected different numbers from 1, separated by commas, as in 1,4,8")
    return found


def _requests(plan: Plan) -> int:
    """Of all cells, and of one warm pass an arm."""
    return (plan.cells + len(plan.arms)) * sum(len(c.turns) for c in plan.recorded)


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)
