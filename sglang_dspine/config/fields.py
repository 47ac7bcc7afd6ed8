"""Typed reads from a config.json that collect every problem instead of stopping at the first."""

from __future__ import annotations

import math
from typing import Any

from ..errors import CheckpointError

ABSENT = object()


def show(value: object, limit: int = 80) -> str:
    """A value as it stands in the JSON, short enough for one line of an error."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}... ({type(value).__name__})"


def unwrap(raw: Any, where: str) -> dict[str, Any]:
    """The config proper: the reference form may stand inside {"config": ...}."""
    if isinstance(raw, dict) and "config" in raw:
        raw = raw["config"]
    if not isinstance(raw, dict):
        raise CheckpointError(where, "holds no config", expected="a JSON object", found=show(raw))
    return raw


class Fields:
    """Reads of one config. A dotted path names a section: `dflash_config.block_size`.

    A read that fails notes the problem and returns None; `raise_problems` reports them all at once.
    """

    def __init__(self, raw: dict[str, Any], where: str):
        self.raw, self.where = raw, where
        self.problems: list[CheckpointError] = []

    def fault(self, what: str, *, expected: object = None, found: object = None, hint: str = "") -> None:
        self.problems.append(CheckpointError(self.where, what, expected=expected, found=found, hint=hint))

    def raise_problems(self) -> None:
        if self.problems:
            raise CheckpointError.together(self.where, self.problems)

    def at(self, path: str) -> Any:
        """The value at a path, or ABSENT; null counts as absent, transformers writes it for unset fields."""
        node: Any = self.raw
        for key in path.split("."):
            if not isinstance(node, dict) or node.get(key) is None:
                return ABSENT
            node = node[key]
        return node

    def agreed(self, *paths: str, required: bool = True) -> Any:
        """The value that stands at one of several paths; two paths that disagree are a contradiction."""
        present = [(path, value) for path in paths if (value := self.at(path)) is not ABSENT]
        if not present:
            if required:
                self.fault(f"{paths[0]} is missing", hint="no number is guessed: add it to the config")
            return ABSENT
        first, value = present[0]
        for other, second in present[1:]:
            if second != value or type(second) is not type(value):
                self.fault(
                    f"{first} and {other} contradict each other",
                    expected=f"{other} = {show(value)}",
                    found=show(second),
                )
        return value

    def integer(self, *paths: str, low: int = 1, high: int | None = None, required: bool = True) -> int | None:
        """An integer in [low, high). Neither 16.0 nor true passes for one."""
        value = self.agreed(*paths, required=required)
        if value is ABSENT:
            return None
        if type(value) is not int or value < low or (high is not None and value >= high):
            span = f"an integer >= {low}" if high is None else f"an integer in [{low}, {high})"
            self.fault(
                f"{paths[0]} is out of range" if type(value) is int else f"{paths[0]} is no integer",
                expected=span,
                found=show(value),
            )
            return None
        return value

    def number(self, *paths: str, low: float = 0.0, required: bool = True) -> float | None:
        """A finite number > low, as a float."""
        value = self.agreed(*paths, required=required)
        if value is ABSENT:
            return None
        if type(value) in (int, float):
            try:
                if math.isfinite(value) and value > low:
                    return float(value)
            except OverflowError:
                pass  # an integer that no float holds
        self.fault(f"{paths[0]} is no usable number", expected=f"a finite number > {low:g}", found=show(value))
        return None

    def flag(self, path: str) -> bool | None:
        """A boolean, or None where the config says nothing."""
        value = self.at(path)
        if value is ABSENT:
            return None
        if type(value) is not bool:
            self.fault(f"{path} is no boolean", expected="true or false", found=show(value))
            return None
        return value

    def listing(self, *paths: str) -> list[Any] | None:
        """A non-empty list."""
        value = self.agreed(*paths)
        if value is ABSENT:
            return None
        if type(value) is not list or not value:
            self.fault(f"{paths[0]} is no list of values", expected="a non-empty list", found=show(value))
            return None
        return value
