"""Run a mode, and turn what goes wrong into a message and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ..errors import DSpineError
from .failure import ServeError

INTERRUPTED = 130  # the shell's number for Ctrl-C


def run(mode: Callable[[], int]) -> int:
    """Exit status of `mode`: its own, 1 after an error (SGLang's last lines first, what to do last), 130 when
    interrupted before it served."""
    try:
        return mode()
    except DSpineError as error:
        log = error.log if isinstance(error, ServeError) else ""
        if log:
            print(log, file=sys.stderr)
        print(f"serve.sh: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("serve.sh: interrupted, stopped", file=sys.stderr)
        return INTERRUPTED
