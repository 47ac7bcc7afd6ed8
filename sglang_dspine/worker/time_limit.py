"""A step that may hang inside a driver gets a time limit that names it (report 30)."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import threading
from collections.abc import Callable, Iterator

logger = logging.getLogger(__name__)


def end_process(what: str, seconds: float) -> None:
    """Say what hangs, where, and end this process: SGLang ends the server when its scheduler is gone."""
    logger.critical("DSPINE: %s took longer than %.0f s (DSPINE_CAPTURE_LIMIT_S); the server ends", what, seconds)
    faulthandler.dump_traceback()
    os._exit(1)


@contextlib.contextmanager
def time_limit(what: str, seconds: float, expired: Callable[[str, float], None] = end_process) -> Iterator[None]:
    """Call `expired` from another thread if the block lasts longer; nothing in Python can interrupt a driver call."""
    timer = threading.Timer(seconds, expired, (what, seconds))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
