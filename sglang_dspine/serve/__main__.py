"""`python -m sglang_dspine.serve`: Docker and native mode, and the actions on a running endpoint."""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from .actions import logs, status, stop
from .failure import ServeError
from .options import parse
from .run import run
from .settings import Settings, read_settings


def main(words: list[str]) -> int:
    options = parse(words, "serve.sh")
    settings = read_settings(os.environ)
    for action in (status, stop, logs):
        if getattr(options, action.__name__):
            return action(settings)
    if options.dry_run:
        return dry_run(settings, options)
    if options.docker:
        from .docker_session import serve_in_docker

        return serve_in_docker(settings, options)
    try:
        from .session import serve  # needs the installed packages
    except ModuleNotFoundError as error:
        raise ServeError(
            f"{sys.executable} lacks {error.name}; install this package there (pip install . in the folder of this "
            "project), or set DSPINE_PYTHON= to the interpreter that has it"
        ) from None
    return serve(settings, options)


def dry_run(settings: Settings, options: Namespace) -> int:
    """Reasons and preflight as comments, then the command. Exit status 1 when a start would be refused."""
    from ..preflight.finding import failures
    from .checks import preflight
    from .docker_plan import docker_command
    from .native import plan
    from .plan import print_plan
    from .state import require_usable

    require_usable(settings.state)
    planned = plan(settings, options.extra)
    looked = preflight(planned, settings)
    command = docker_command(settings, options.extra) if options.docker else planned.command
    print_plan(planned.profile, planned.flags, command, looked.lines)
    return 1 if failures(looked.findings) and not settings.lenient else 0


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
