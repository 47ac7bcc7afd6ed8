"""`python -m sglang_dspine.serve`: Docker and native mode, and the actions on a running endpoint."""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from .actions import logs, status, stop
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
    from .session import serve  # needs the installed packages

    return serve(settings, options)


def dry_run(settings: Settings, options: Namespace) -> int:
    """Reasons and preflight as comments, then the command."""
    from .checks import preflight
    from .docker_plan import docker_command
    from .native import plan
    from .plan import print_plan

    planned = plan(settings, options.extra)
    notes = preflight(planned, settings).lines
    command = docker_command(settings, options.extra) if options.docker else planned.command
    print_plan(planned.profile, planned.flags, command, notes)
    return 0


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
