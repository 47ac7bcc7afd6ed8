"""`python -m sglang_dspine.exactness`: E2 and E4 against running servers. E3 is `sglang-dspine audit`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from sglang_dspine.errors import DSpineError
from sglang_dspine.exactness.endpoint import Endpoint
from sglang_dspine.exactness.filters import Sampling
from sglang_dspine.exactness.prompts import read_prompts, to_ids
from sglang_dspine.exactness.report import UNUSABLE, Report
from sglang_dspine.serve.settings import KEY_VARIABLES

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)

Url = Annotated[str, typer.Option(help="The DSPINE server.")]
Control = Annotated[str | None, typer.Option(help="The same target without speculation.")]
Prompts = Annotated[Path, typer.Option(help="Prompts: a text file, one a line, or *.jsonl.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the report as JSON.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Requests in flight.")]

Key = Annotated[str | None, typer.Option(envvar=KEY_VARIABLES, help="The servers' key.")]


@app.command("e2")
def teacher_forced(
    url: Url,
    prompts: Prompts,
    control_url: Control = None,
    max_new_tokens: int = 128,
    top: Annotated[int, typer.Option(help="Logprobs per row; never above the vocabulary.")] = 20,
    control_concurrency: Annotated[int, typer.Option(min=1, help="Another batch size for the control.")] = 4,
    concurrency: Concurrency = 8,
    json_out: Json = None,
    api_key: Key = None,
) -> None:
    """Compare the target rows verify used with an uncached re-score, row by row."""
    from sglang_dspine.exactness.served_rows import served_rows
    from sglang_dspine.exactness.teacher_forced import compare

    def run() -> Report:
        server = Endpoint(url, concurrency=concurrency, api_key=api_key)
        ids = to_ids(read_prompts(prompts), server)
        test = served_rows(server, ids, max_new_tokens=max_new_tokens, top=top)
        plain = None
        if control_url is not None:
            control = Endpoint(control_url, concurrency=control_concurrency, api_key=api_key)
            plain = served_rows(control, ids, max_new_tokens=max_new_tokens, top=top)
        return compare(test, plain, url)

    _finish(run, json_out)


@app.command("e4")
def distribution(
    url: Url,
    prompts: Prompts,
    setting: Annotated[
        list[str], typer.Option(help='E.g. "temperature=0.7 top_k=20"; once per setting; "length=12" for one of them.')
    ],
    control_url: Control = None,
    requests: Annotated[int, typer.Option(min=1, help="Per setting.")] = 9000,
    length: Annotated[int, typer.Option(min=2, help="Tokens per request.")] = 6,
    pilot: Annotated[int, typer.Option(min=0, help="Requests that choose the prompts; 0 takes all.")] = 0,
    keep: Annotated[int, typer.Option(min=1, help="Prompts chosen by the pilot.")] = 6,
    top: Annotated[int, typer.Option(help="Logprobs per row, without a control; never above the vocabulary.")] = 64,
    vocab_size: Annotated[int | None, typer.Option(help="Closes the law's tail when temperature > 1.")] = None,
    rounding: Annotated[
        float, typer.Option(min=0, help="Of a log-probability on a GPU: rows whose cut hangs on it are left out.")
    ] = 0.0,
    power_runs: Annotated[int, typer.Option(min=1, help="Simulated reports per planted fault.")] = 100,
    concurrency: Concurrency = 32,
    processes: Annotated[int, typer.Option(min=1, help="For the simulation of the power.")] = 1,
    json_out: Json = None,
    api_key: Key = None,
) -> None:
    """Test sampled tokens against plain decode, or without --control-url against the target's exact law."""
    from sglang_dspine.exactness.sampled_report import report
    from sglang_dspine.exactness.served_setting import Plan, judge_setting

    def run() -> Report:
        plan = Plan(requests, length, pilot, keep, top, vocab_size, rounding)
        server = Endpoint(url, concurrency=concurrency, api_key=api_key)
        control = None if control_url is None else Endpoint(control_url, concurrency=concurrency, api_key=api_key)
        ids = to_ids(read_prompts(prompts), server)
        asked = {label: split_length(label, length) for label in setting}
        samplings = {label: (parse_setting(text), tokens) for label, (text, tokens) in asked.items()}
        settings = []
        with Progress(console=Console(stderr=True), transient=True) as bar:
            for label, (sampling, tokens) in samplings.items():
                task = bar.add_task(label, total=pilot + requests * (1 if control is None else 2))
                drawn = partial(bar.advance, task)
                own = replace(plan, length=tokens)
                settings.append(judge_setting(server, control, ids, sampling, label, own, drawn))
        return report(settings, url, runs=power_runs, processes=processes)

    _finish(run, json_out)


def split_length(text: str, usual: int) -> tuple[str, int]:
    """A setting without its "length=N", and N, or the usual length."""
    words = text.split()
    lengths = [word.removeprefix("length=") for word in words if word.startswith("length=")]
    if len(lengths) > 1 or not all(n.isdigit() and int(n) > 1 for n in lengths):
        raise DSpineError(f"setting {text!r}: expected one length of at least 2, found {', '.join(lengths)}")
    return " ".join(w for w in words if not w.startswith("length=")), int(lengths[0]) if lengths else usual


def parse_setting(text: str) -> Sampling:
    """Sampling parameters from "name=value ..."."""
    kinds = {"temperature": float, "top_k": int, "top_p": float, "min_p": float}
    values = {}
    for part in text.split():
        name, _, value = part.partition("=")
        if name not in kinds:
            raise DSpineError(f"setting {text!r}: unknown {name!r}; expected {', '.join(kinds)}")
        try:
            values[name] = kinds[name](value)
        except ValueError:
            raise DSpineError(f"setting {text!r}: {name} is {value!r}; expected a number") from None
    return Sampling(**values)


def _finish(run, json_out: Path | None) -> None:
    """Show and write the report; the exit status tells: 0 holds, 1 does not, 2 could not be judged."""
    try:
        report = run()
        report.show(Console())
        if json_out is not None:
            report.write(json_out)
    except (DSpineError, OSError) as error:
        Console(stderr=True).print(f"exactness: {error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(UNUSABLE) from None
    raise typer.Exit(report.status)


if __name__ == "__main__":
    app()
