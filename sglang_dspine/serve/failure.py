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
