"""`sglang-dspine inspect`: what a checkpoint holds, and whether it would load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def command(
    path: Annotated[Path, typer.Argument(help="Checkpoint folder: config.json and its safetensors.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Show what a drafter checkpoint holds and whether it would load; exit status 1 when it would not."""
    from ..checkpoint import examine
    from .inspect_report import report, show

    findings = report(examine(path))
    if as_json:
        typer.echo(json.dumps(findings, indent=2))
    else:
        show(findings)
    raise typer.Exit(0 if findings["loads"] else 1)
