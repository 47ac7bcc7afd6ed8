"""`sglang-dspine`: one file in this folder a command, imported when the command is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

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
        module = import_module(f".{COMMANDS[cmd_name]}", package=__package__)
        single.command(cmd_name)(module.command)
        return typer.main.get_command(single)


app = typer.Typer(cls=LazyCommands, no_args_is_help=True, add_completion=False)


@app.callback()
def main() -> None:
    """DSpine speculative decoding for SGLang."""


if __name__ == "__main__":
    app()
