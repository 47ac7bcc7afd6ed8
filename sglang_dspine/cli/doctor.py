"""`sglang-dspine doctor`: can this machine serve DSPINE, and does it?"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..serve.settings import KEY_VARIABLES

if TYPE_CHECKING:
    from ..preflight.budget import Budget
    from ..preflight.finding import Finding

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def command(
    extra: Annotated[list[str] | None, typer.Argument(help="After --: SGLang arguments you would serve with.")] = None,
    model: Annotated[Path | None, typer.Option(envvar="MODEL", help="Target's folder.")] = None,
    draft: Annotated[str | None, typer.Option(envvar="DRAFT", help="Drafter's folder or repository id.")] = None,
    url: Annotated[str | None, typer.Option(help="A running endpoint to look at, too.")] = None,
    api_key: Annotated[str | None, typer.Option(envvar=KEY_VARIABLES, help="Its key.")] = None,
    kernels: Annotated[bool, typer.Option(help="Compile this package's kernels, too; under a minute.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look at versions, GPU, drafter and target, memory, port, caches; each line says ok, warn or fail and what to do.

    Exit status: 0 nothing failed, 1 something did.
    """
    from ..doctor.environment import look_at_environment
    from ..doctor.machine import look_at_machine
    from ..doctor.pair import look_at_pair
    from ..errors import DSpineError
    from ..preflight.finding import FAIL, Finding, failures
    from ..preflight.gpu import check_driver, find_memory
    from ..serve.hardware import find_gpu
    from ..serve.settings import read_settings

    findings = look_at_environment()
    budget: Budget | None = None
    lines: list[str] = []
    try:
        gpu = find_gpu()
        found = None if gpu is None else gpu.capability
        findings += [_gpu(str(gpu) if gpu else None), check_driver(find_memory(found)[1]), *look_at_machine(gpu)]
        if kernels:
            from ..doctor.kernels import look_at_kernels

            findings.append(look_at_kernels(gpu))
        settings = read_settings({**os.environ, "API_KEY": api_key or ""})
        settings = replace(settings, model=None if model is None else str(model), draft=draft)
        if url is None:
            findings.append(_port(settings))
        more, budget, lines = look_at_pair(settings, extra or [])
        findings += more
    except DSpineError as error:
        findings.append(Finding(FAIL, "settings", str(error), "correct it, and run doctor again"))
    if url is not None:
        from ..doctor.running import look_at_endpoint

        findings += look_at_endpoint(url, api_key)
    _show(findings, budget, lines, as_json)
    raise typer.Exit(1 if failures(findings) else 0)


def _gpu(gpu: str | None) -> Finding:
    from ..preflight.finding import OK, WARN, Finding

    if gpu is None:
        return Finding(WARN, "GPU", "none", "serving on the CPU is for trying it out")
    return Finding(OK, "GPU", gpu)


def _port(settings: Any) -> Finding:
    from ..preflight.finding import OK, WARN, Finding
    from ..serve.failure import ServeError
    from ..serve.port import require_free

    try:
        require_free(settings.host, settings.port, settings.state)
    except ServeError as error:
        return Finding(
            WARN, "port", str(error), f"doctor --url http://127.0.0.1:{settings.port} looks at what runs there"
        )
    return Finding(OK, "port", f"{settings.host}:{settings.port} is free")


def _show(findings: list[Finding], budget: Budget | None, lines: list[str], as_json: bool) -> None:
    if as_json:
        figures = {"ok": all(f.level != "fail" for f in findings), "findings": [asdict(f) for f in findings]}
        typer.echo(json.dumps({**figures, "budget": None if budget is None else _figures(budget)}, indent=1))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    for finding in findings:
        todo = f"; {finding.todo}" if finding.todo else ""
        console.print(
            Text.assemble((f"{finding.level:4}", STYLES[finding.level]), f" {finding.what}: {finding.found}{todo}")
        )
    for line in lines:
        console.print(Text(line))


def _figures(budget: Budget) -> dict[str, Any]:
    """Bytes, and what they were reckoned from."""
    return {
        "free": budget.memory.free, "unified": budget.memory.unified, "fraction": budget.fraction,
        "set_aside": budget.static, "left": budget.room, "lines": [asdict(line) for line in budget.lines],
        "kv_bytes_per_token": budget.per_token, "kv_tokens": budget.tokens, "requests": budget.requests,
        "state_per_request": None if budget.state is None else asdict(budget.state),
    }  # fmt: skip
