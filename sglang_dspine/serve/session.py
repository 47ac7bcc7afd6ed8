"""Serve a planned native endpoint: check, start, one answer, hold."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from rich.console import Console

from .ask import Asker
from .endpoint import endpoint, hold, stop_on_signals
from .failure import ServeError
from .native import plan
from .plan import explain
from .progress import say
from .settings import Settings

PROMPT = "def fibonacci(n):\n"


def serve(settings: Settings, extra: Sequence[str], once: bool) -> int:
    """Serve until stopped; with `once`, stop after the first answer."""
    console = Console()
    profile, flags, command = plan(settings, extra)
    require_packages(settings.python)
    stop_on_signals()
    for line in explain(profile, flags):
        say(console, line)
    say(console, str(command))
    with endpoint(settings, command, settings.model or "", console) as server:
        answers = Asker(settings.url, settings.api_key).ask_all([PROMPT], 64)
        length = answers.accepted_length
        if length is None:
            raise ServeError("no verify rounds in the answer: this server does not speculate", server.log.tail(40))
        say(console, f"first answer: {answers.each[0].text!r}, accepted length {length:.2f}")
        if not once:
            hold(server, console, f"serving at {settings.url} until Ctrl-C or ./serve.sh --stop")
    return 0


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
