"""The error of this folder."""

from __future__ import annotations

import re

from ..errors import DSpineError

USAGE = 2  # argparse's exit status
OURS = re.compile(r"^sglang_dspine\.errors\.\w+: (.+)$", re.MULTILINE)  # how Python ends a traceback


class ServeError(DSpineError):
    """An endpoint that cannot be started, did not come up, or is not there.

    `log` holds the last lines of SGLang's log where there is one; the message alone says what to do.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


def next_step(killed: bool) -> str:
    """What to do after a server that ended by itself; killed: by SIGKILL, which SGLang also sends itself after an error
    in one of its processes."""
    if killed:
        return (
            "so it ends itself after an error, which its lines above would tell, and so the kernel ends it when memory "
            "runs out (dmesg tells; free some, or lower --mem-fraction-static); then start it again"
        )
    return "its last lines are above; sglang-dspine doctor looks for the cause, and a start may be tried again"


def refusal(status: int | None, log: str) -> ServeError | None:
    """The error for a server that said itself why it will not serve, before hundreds of lines; None for another end."""
    if ours := OURS.findall(log):
        return ServeError(f"SGLang ended, for this package refuses what it was given: {ours[-1]}")
    _, found, said = log.rstrip().rpartition(": error: ")
    if status != USAGE or not found or "\n" in said:
        return None
    return ServeError(f"SGLang refuses its arguments: {said}; correct what follows --, and start it again")
