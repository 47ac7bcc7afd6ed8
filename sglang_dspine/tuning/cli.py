"""The command of `sps-tuning/tune_sps.py`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..errors import DSpineError
from ..serve.settings import KEY_VARIABLES
from ..widths.parse import render_table
from ..widths.table import SpsTable
from .acceptance import measure_acceptance, read_profile, read_prompts
from .bench import Bench
from .cells import Cells, noisy_cells
from .combine import combine, rates
from .failure import TuningError
from .hardware import gpu_provenance
from .measure import Plan, measure
from .plots import can_plot, draw
from .report import csv_rows, markdown
from .server import ServerBench
from .simulated import SimulatedBench, flat_cost
from .store import Store

console = Console(stderr=True)
app = typer.Typer(add_completion=False)


@app.command()
def tune(
    out: Annotated[
        Path, typer.Option(help="folder of measurements, report and table; an interrupted run goes on there")
    ],
    url: Annotated[str, typer.Option(help="a server started with DSPINE_WIDTHS set to the widths to measure")] = "",
    batches: Annotated[str, typer.Option(help="numbers of users")] = "1,2,4,8,16,32",
    widths: Annotated[str, typer.Option(help="1 is plain decode")] = "1,2,4,8,12,16",
    visits: Annotated[int, typer.Option(help="visits to each cell, there and back")] = 5,
    rounds: Annotated[int, typer.Option(help="rounds of a visit")] = 24,
    prompt_tokens: Annotated[int, typer.Option(help="context of the measured requests when they start")] = 1024,
    last_id: Annotated[
        int | None, typer.Option(min=2, help="random prompts use ids below it; needed for a remote, small vocabulary")
    ] = None,
    prompts: Annotated[Path | None, typer.Option(help="your own prompts, one a line: measure their acceptance")] = None,
    acceptance: Annotated[str, typer.Option(help="a profile instead: 'published', or 0.8,0.85,...")] = "",
    table: Annotated[Path | None, typer.Option(help="where to write the table; default: OUT/sps.json")] = None,
    combine_only: Annotated[
        bool, typer.Option("--combine", help="no measuring: choose widths from what OUT holds")
    ] = False,
    simulate: Annotated[
        str, typer.Option(help="a test of the tuner: 'known' costs, or 'flat' ones, which must fail")
    ] = "",
    api_key: Annotated[str, typer.Option(envvar=KEY_VARIABLES, help="of the server")] = "",
) -> None:
    """Measure how long a round takes for each number of users and verify width, and write the table of best widths."""
    try:
        store, plan = Store(out), Plan(numbers(batches), numbers(widths), visits, rounds)
        path = table or out / "sps.json"
        if table is not None and not table.parent.is_dir():
            raise TuningError(f"--table {table}: {table.parent} is no folder; name one that is there")
        bench: Bench | None = None
        texts: Sequence[str] | None = None
        if not combine_only:
            texts = None if prompts is None else read_prompts(prompts)  # before an hour of measuring
            bench = _bench(url, simulate, plan, prompt_tokens, api_key, last_id)
            cells = _measure(bench, plan, store)
        else:
            cells = store.planned()
        profile = _profile(acceptance, prompts, texts, bench, store, simulate)
        _finish(store, cells, profile, path)
    except DSpineError as error:
        console.print(f"tune_sps: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None


def numbers(text: str) -> tuple[int, ...]:
    """`"1,2,4"` -> (1, 2, 4), ascending. Raises TuningError."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise TuningError(f"{text!r}: expected numbers from 1, as in 1,2,4")
    return tuple(sorted({int(word) for word in words}))


def _bench(url: str, simulate: str, plan: Plan, prompt_tokens: int, api_key: str, last_id: int | None = None) -> Bench:
    if simulate:
        if simulate not in ("known", "flat"):
            raise TuningError(f"--simulate {simulate}: expected 'known' or 'flat'")
        return SimulatedBench(plan.widths, flat_cost) if simulate == "flat" else SimulatedBench(plan.widths)
    if not url:
        raise TuningError("--url of a running server is needed, or --simulate known, or --combine")
    return ServerBench(url, prompt_tokens, api_key=api_key or None, last_id=last_id)


def _measure(bench: Bench, plan: Plan, store: Store) -> Cells:
    about = {**gpu_provenance(), **bench.provenance(), "rounds": plan.rounds}
    cells = store.begin(about)
    done = sum(min(len(cell.visits), plan.visits) for cell in cells.values())
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task, begun = progress.add_task("measuring", total=plan.total, completed=done), time.monotonic()

        def step(what: str) -> None:
            nonlocal done
            done += 1
            progress.update(task, advance=1, description=what)
            if not console.is_terminal and done % 10 == 0:
                console.print(f"{done}/{plan.total} visits, {time.monotonic() - begun:.0f} s, {what}", highlight=False)

        return measure(bench, plan, store, step)


def _profile(
    text: str,
    prompts: Path | None,
    texts: Sequence[str] | None,
    bench: Bench | None,
    store: Store,
    simulate: str,
) -> tuple[float, ...]:
    """The acceptance to choose by: as given, as measured now, as measured before, or as published."""
    kept = store.folder / "acceptance.json"
    if text:
        return read_profile(text)
    if prompts is not None:
        if not isinstance(bench, ServerBench):
            raise TuningError("--prompts needs --url: acceptance is measured on a server")
        assert texts is not None
        profile = measure_acceptance(bench, texts)
        kept.write_text(json.dumps({"prompts": str(prompts), "acceptance": profile}, indent=1) + "\n")
        return profile
    if kept.exists():
        return tuple(json.loads(kept.read_text())["acceptance"])
    if not simulate:
        console.print("no --prompts and no --acceptance: choosing by the published profile", style="yellow")
    return read_profile("published")


def _finish(store: Store, cells: Cells, acceptance: tuple[float, ...], path: Path) -> None:
    about = store.about()
    provenance: dict[str, Any] = {"source": "sps-tuning/tune_sps.py", "date": time.strftime("%Y-%m-%d"), **about}
    provenance.setdefault("gpu", "unknown")
    table = combine(cells, acceptance, provenance)
    found = rates(cells, acceptance)
    store.write_csv(csv_rows(found, table))
    plots = can_plot()
    if plots:
        draw(found, table, store.folder)
    else:
        console.print("no plots: pip install 'sglang-dspine[tune]' brings matplotlib", style="yellow", markup=False)
    (store.folder / "REPORT.md").write_text(markdown(found, table, plots))
    path.write_text(json.dumps(render_table(table), indent=1) + "\n")
    refused = [f"batch {cell.batch}, width {cell.width}" for cell in noisy_cells(cells)]
    if refused:
        console.print(f"too noisy to be chosen: {'; '.join(refused)}", style="yellow", highlight=False)
    typer.echo(f"{path}: {summary(table)}")


def summary(table: SpsTable) -> str:
    return "widths for batch 1, 2, ...: " + ", ".join(map(str, table.widths)) + " (the last for every larger batch)"


def main() -> None:
    app()
