"""Errors a user meets. Each message says what was found, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Sequence

_LISTED = 20  # problems of one message: a wholly different model would name hundreds of tensors


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
        self._listed: tuple[CheckpointError, ...] = ()

    @property
    def problems(self) -> tuple[CheckpointError, ...]:
        """The errors it stands for: itself, or those that `together` joined."""
        return self._listed or (self,)

    @classmethod
    def together(cls, where: str, problems: Sequence[CheckpointError]) -> CheckpointError:
        """One error for every problem found, so that one start shows all there is to mend.

        The message lists the first `_LISTED`; `problems` keeps them all.
        """
        if len(problems) == 1:
            return problems[0]
        lines = [f"\n  {number}. {problem}" for number, problem in enumerate(problems[:_LISTED], 1)]
        if len(problems) > _LISTED:
            lines.append(f"\n  and {len(problems) - _LISTED} more; `sglang-dspine inspect` lists them all")
        error = cls(where, f"{len(problems)} problems{''.join(lines)}")
        error._listed = tuple(problems)
        return error


class FlagError(DSpineError):
    """A server flag that contradicts the checkpoint or this plugin."""


class CompatError(DSpineError):
    """The installed SGLang lacks, or has changed, a symbol this plugin stands on."""
