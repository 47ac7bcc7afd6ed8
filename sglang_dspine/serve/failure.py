"""The error of this folder."""

from __future__ import annotations

from ..errors import DSpineError


class ServeError(DSpineError):
    """An endpoint that cannot be started, did not come up, or is not there.

    `log` holds the last lines of SGLang's log where there is one; the message alone says what to do.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


def next_step(killed: bool) -> str:
    """What to do after a server that ended by itself; killed: by SIGKILL, as the kernel does when memory runs out."""
    if killed:
        return (
            "that is how the kernel ends it when memory runs out (dmesg tells): free some, or lower "
            "--mem-fraction-static, and start it again"
        )
    return "its last lines are above; sglang-dspine doctor looks for the cause, and a start may be tried again"
