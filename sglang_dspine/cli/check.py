"""`sglang-dspine check`: does the installed SGLang hold every symbol this plugin stands on?"""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape


def command(as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False) -> None:
    """Check the installed SGLang, by its sources: version, symbols, parameters. Exit status 1 when anything differs."""
    from ..compat.check import check_symbols, check_version
    from ..compat.symbols import SGLANG_VERSION, SYMBOLS
    from ..errors import CompatError

    try:
        version, problems = check_version(), check_symbols()
    except CompatError as error:
        version, problems = str(error), []
    wrong = ([version] if version else []) + problems
    if as_json:
        typer.echo(json.dumps({"expected": SGLANG_VERSION, "symbols": len(SYMBOLS), "problems": wrong}))
    else:
        out = Console(highlight=False, soft_wrap=True)
        for problem in wrong:
            out.print(f"[red]fail[/] {escape(problem)}")
        if not wrong:
            out.print(f"[green]ok[/] SGLang {SGLANG_VERSION}, {len(SYMBOLS)} symbols as expected")
    raise typer.Exit(1 if wrong else 0)
