"""One thing that was looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True)
class Finding:
    level: str  # OK, WARN, FAIL
    what: str  # the thing, in a word or two
    found: str
    todo: str = ""  # what to do; a FAIL always says

    def __str__(self) -> str:
        return f"{self.level:4} {self.what}: {self.found}" + (f"; {self.todo}" if self.todo else "")


def failures(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.level == FAIL]
