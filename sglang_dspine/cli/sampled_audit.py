"""`sglang-dspine sampled-audit`: is sampled text distributed as the target's own? Level E4 of the exactness suite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..serve.settings import KEY_VARIABLES


def command(
    url: Annotated[str, typer.Option(help="Server to audit, e.g. http://127.0.0.1:30000.")],
    prompts: Annotated[Path, typer.Option(help="A few prompts: a text file, one a line, or *.jsonl.")],
    setting: Annotated[list[str], typer.Option(help='E.g. "temperature=0.7 top_k=20"; once per setting.')],
    control_url: Annotated[str | None, typer.Option(help="The same target without speculation.")] = None,
    requests: Annotated[int, typer.Option(min=1, help="Draws per setting.")] = 9000,
    length: Annotated[int, typer.Option(min=2, help="Tokens per request.")] = 6,
    top: Annotated[int, typer.Option(help="Logprobs per row, without a control; never above the vocabulary.")] = 64,
    vocab_size: Annotated[int | None, typer.Option(help="Closes the law's tail when temperature > 1.")] = None,
    power_runs: Annotated[int, typer.Option(min=1, help="Simulated reports per planted fault.")] = 100,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests in flight.")] = 32,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the report as JSON.")] = None,
    api_key: Annotated[str | None, typer.Option(envvar=KEY_VARIABLES, help="The servers' key.")] = None,
) -> None:
    """Draw many times from a few prompts and test which tokens follow which prefixes, corrected by Holm.

    Against the same target without speculation or, without --control-url, against the target's own law. States the
    power it had. Exit status: 0 holds, 1 does not, 2 could not be judged.
    """
    from ..exactness.__main__ import distribution

    distribution(
        url=url,
        prompts=prompts,
        setting=setting,
        control_url=control_url,
        requests=requests,
        length=length,
        top=top,
        vocab_size=vocab_size,
        power_runs=power_runs,
        concurrency=concurrency,
        json_out=json_out,
        api_key=api_key,
    )
