"""Stop a start before it takes the last memory of the machine (report 26)."""

from __future__ import annotations

from collections.abc import Callable

from ..preflight.gpu import Memory, host_memory
from .failure import ServeError

LEAST = 2_000_000_000  # below this a host that shares its memory stops answering; ssh too


def watch_memory(memory: Memory, read: Callable[[], Memory] = host_memory) -> Callable[[], None]:
    """A check to be called while the server starts; it raises ServeError, and does nothing for a GPU with memory of
    its own."""

    def check() -> None:
        free = read().free
        if free < LEAST:
            raise ServeError(
                f"stopped: only {free / 1e9:.1f} GB of this machine's memory were left while the server started; end "
                "other programs, lower --mem-fraction-static, or set MAX_JOBS=1"
            )

    return check if memory.unified else lambda: None
