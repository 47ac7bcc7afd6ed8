"""`sglang-dspine audit`: is the text of a running endpoint exactly its target's greedy text?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from sglang_dspine.errors import DSpineError
from sglang_dspine.exactness.audit import audit as run_audit
from sglang_dspine.exactness.endpoint import Endpoint
from sglang_dspine.exactness.prompts import read_prompts, to_ids
from sglang_dspine.exactness.report import UNUSABLE
from sglang_dspine.serve.settings import KEY_VARIABLES


def audit(
    url: Annotated[str, typer.Option(help="Server to audit, e.g. http://127.0.0.1:30000.")],
    prompts: Annotated[Path, typer.Option(help="Prompts: a text file, one a line, or *.jsonl.")],
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Tokens generated per prompt.")] = 64,
    control_url: Annotated[
        str | None, typer.Option(help="The same target without speculation; says which gaps are rounding.")
    ] = None,
    control_passes: Annotated[int, typer.Option(min=1, help="How often the control decodes the prompts.")] = 4,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the report as JSON.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 4,
    ignore_eos: Annotated[bool, typer.Option(help="Generate on after an end token.")] = False,
    api_key: Annotated[str | None, typer.Option(envvar=KEY_VARIABLES, help="The servers' key.")] = None,
) -> None:
    """Re-score a server's greedy text with the cache off: every token must be the target's top-1.

    Exit status: 0 every token passes, 1 some do not, 2 the audit could not be done.
    """
    console = Console()
    try:
        endpoint = Endpoint(url, concurrency=concurrency, api_key=api_key)
        # as many in flight as in the test, then half as many, then twice, four times, ...
        in_flight = [concurrency, max(1, concurrency // 2), *(concurrency << i for i in range(1, control_passes))]
        control = (
            []
            if control_url is None
            else [Endpoint(control_url, concurrency=n, api_key=api_key) for n in in_flight[:control_passes]]
        )
        ids = to_ids(read_prompts(prompts), endpoint)
        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("prompts", total=len(ids) * (1 + len(control)))
            report = run_audit(
                endpoint,
                ids,
                max_new_tokens=max_new_tokens,
                ignore_eos=ignore_eos,
                control=control,
                progress=lambda: bar.advance(task),
            )
        report.show(console)
        if json_out is not None:
            report.write(json_out)
    except (DSpineError, OSError) as error:
        Console(stderr=True).print(f"audit: {error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(UNUSABLE) from None
    raise typer.Exit(report.status)


command = audit
