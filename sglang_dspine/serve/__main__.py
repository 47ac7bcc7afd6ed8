"""`python -m sglang_dspine.serve`: native mode, and the two actions on a running endpoint."""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from .options import parse
from .record import find_record, stop_recorded
from .run import run
from .settings import Settings, read_settings


def main(words: list[str]) -> int:
    options = parse(words, "serve.sh")
    settings = read_settings(os.environ)
    if options.status:
        return status(settings)
    if options.stop:
        return stop(settings)
    return native(settings, options)


def status(settings: Settings) -> int:
    """Exit status 0 when something is served on PORT, else 3 (as of a stopped service)."""
    record = find_record(settings.state, settings.port)
    if record is None:
        print(f"nothing is served on port {settings.port}")
        return 3
    print(f"{record.what} at {record.url}, process {record.pid}, log in {record.log}")
    return 0


def stop(settings: Settings) -> int:
    record = find_record(settings.state, settings.port)
    if record is None:
        print(f"nothing is served on port {settings.port}")
        return 0
    stop_recorded(record)
    print(f"stopped {record.what} at {record.url}")
    return 0


def native(settings: Settings, options: Namespace) -> int:
    if options.dry_run:
        from .native import plan
        from .plan import print_plan

        print_plan(*plan(settings, options.extra))
        return 0
    from .session import serve  # needs the installed packages

    return serve(settings, options.extra, options.once)


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
