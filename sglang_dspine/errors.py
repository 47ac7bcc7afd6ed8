"""Errors a user meets. Each message says what was found, what was expected and what to do."""


class DSpineError(ValueError):
    """Base of all errors raised on bad input."""


class CheckpointError(DSpineError):
    """A drafter checkpoint that must not be served."""

    def __init__(self, where: str, what: str, *, expected: object = None, found: object = None, hint: str = ""):
        parts = [f"{where}: {what}"]
        if expected is not None:
            parts.append(f"expected {expected}")
        if found is not None:
            parts.append(f"found {found}")
        if hint:
            parts.append(hint)
        super().__init__("; ".join(parts))
        self.where, self.what, self.expected, self.found = where, what, expected, found


class FlagError(DSpineError):
    """A server flag that contradicts the checkpoint or this plugin."""


class CompatError(DSpineError):
    """The installed SGLang lacks, or has changed, a symbol this plugin stands on."""
