"""Serve a planned native endpoint: check, start, first answer, hold."""

from __future__ import annotations

import subprocess
from argparse import Namespace

from rich.console import Console

from ..preflight.draft import check_values
from .answer import first_answer
from .checks import preflight, refuse
from .endpoint import endpoint, hold, stop_on_signals
from .failure import ServeError
from .fallback import fallback
from .guard import watch_memory
from .native import Plan, plan
from .plan import explain
from .progress import say
from .record import find_record, stop_recorded
from .settings import Settings
from .state import require_usable

VOCAB = 32000  # of a target whose config does not say


def serve(settings: Settings, options: Namespace) -> int:
    """Serve until stopped; with `once`, stop after the first answer; a server that is up already is only reported."""
    console = Console()
    planned = plan(settings, options.extra)
    if not options.once and already(settings, planned, options.restart, console):
        return 0
    require_usable(settings.state)
    require_packages(settings.python)
    looked = preflight(planned, settings)
    stop_on_signals()
    for line in [*explain(planned.profile, planned.flags), *looked.lines]:
        say(console, line)
    refuse(looked.findings, settings.lenient)
    values = check_values(planned.draft)
    for finding in values:
        say(console, str(finding))
    refuse(values, settings.lenient)
    say(console, str(planned.command))
    watch = watch_memory(planned.memory) if planned.gpu is not None else None
    with endpoint(settings, planned.command, settings.model or "", console, watch) as server:
        hint = fallback(planned.target, planned.gpu, planned.command.words)
        try:
            first_answer(
                settings.url, settings.api_key, planned.target.vocab or VOCAB, hint, lambda line: say(console, line)
            )
        except ServeError as error:
            raise ServeError(str(error), server.log.tail(40)) from error
        if not options.once:
            hold(server, console, f"serving at {settings.url} until Ctrl-C or ./serve.sh --stop")
    return 0


def already(settings: Settings, planned: Plan, restart: bool, console: Console) -> bool:
    """True when the same server is up. Raises ServeError when another one is; with `restart`, stops it."""
    record = find_record(settings.state, settings.port)
    if record is None:
        return False
    if restart:
        say(console, f"stopping {record.what} at {record.url}, process {record.pid}")
        stop_recorded(record)
        say(console, f"stopped {record.what} at {record.url}")
        return False
    if record.command == str(planned.command):
        say(console, f"{record.what} is served at {record.url} already, process {record.pid}, log in {record.log}")
        return True
    raise ServeError(
        f"{record.what} is served at {record.url} with other settings; ./serve.sh --restart replaces it, --stop ends "
        "it, PORT= serves beside it"
    )


def require_packages(python: str) -> None:
    """Raise ServeError unless `python` has SGLang and this package side by side."""
    probe = "import importlib.util as u; print(*[n for n in ('sglang', 'sglang_dspine') if u.find_spec(n) is None])"
    try:
        found = subprocess.run([python, "-c", probe], capture_output=True, text=True)
    except OSError as error:
        raise ServeError(f"cannot run {python}: {error}; set DSPINE_PYTHON= to one that has SGLang") from None
    if found.returncode != 0 or found.stdout.strip():
        missing = found.stdout.strip() or found.stderr.strip()
        raise ServeError(
            f"{python} lacks: {missing}; install it there (pip install sglang==0.5.23, then pip install . here), "
            "or set DSPINE_PYTHON= to the interpreter that has both"
        )
