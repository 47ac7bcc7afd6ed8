"""`sglang-dspine`: one file in this folder a command, imported when the command is called."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

# command -> module beside this one; its function `command` takes the arguments and carries the help text
COMMANDS = {
    "accept": "accept",
    "audit": "audit",
    "bench": "bench",
    "bench-compare": "bench_compare",
    "check": "check",
    "convert": "convert",
    "doctor": "doctor",
    "inspect": "inspect",
    "sampled-audit": "sampled_audit",
}


class LazyCommands(TyperGroup):
    """Finds a command by the table above, so that a start imports no more than it runs."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        single = typer.Typer(add_completion=False)
        try:
            module = import_module(f".{COMMANDS[cmd_name]}", package=__package__)
        except ModuleNotFoundError as error:
            raise lacking(cmd_name, error) from None
        single.command(cmd_name)(told_what_lacks(cmd_name, module.command))
        return typer.main.get_command(single)


def told_what_lacks(name: str, command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, ending in a sentence where a package is missing: this one names neither torch nor SGLang."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except ModuleNotFoundError as error:
            raise lacking(name, error) from None

    return run


def lacking(name: str, error: ModuleNotFoundError) -> Exception:
    """What to raise for a package that is missing; a module of this package that is missing is a fault of ours."""
    missing = str(error.name).partition(".")[0]
    if missing in ("", "None", __package__.partition(".")[0]):
        return error
    typer.echo(
        f"sglang-dspine {name}: needs {missing}, which comes with SGLang. Run it in the environment that runs SGLang, "
        "or pip install '.[sglang]' in the folder of this project",
        err=True,
    )
    return typer.Exit(2)


app = typer.Typer(cls=LazyCommands, no_args_is_help=True, add_completion=False)


def show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"sglang-dspine {version('sglang-dspine')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """DSpine speculative decoding for SGLang."""


if __name__ == "__main__":
    app()
