"""Read an SPS table strictly: an unknown key, a width that no server can run or a hole in the measurements is an error
that names the entry.

    {"version": 1,
     "widths": [16, 16, 8],                      batch 1, 2, 3 and every larger batch; 0 or 1: plain decode
     "provenance": {"gpu": "NVIDIA H200", "source": "sps-tuning/tune_sps.py", ...},
     "step_ms": {"batches": [1, 2], "widths": [1, 8], "ms": [[20.1, 21.7], [20.4, 22.9]]},
     "acceptance": [0.8, 0.82]}                  the last two are optional
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..errors import DSpineError
from .step_cost import StepCost
from .table import SpsTable

VERSION = 1
WIDEST = 64  # no drafter's block is wider
KEYS = {"version", "widths", "provenance", "step_ms", "acceptance"}


class TableError(DSpineError):
    """An SPS table that must not be used."""

    def __init__(self, where: str, entry: str, found: object, expected: str) -> None:
        super().__init__(f"SPS table {where}: {entry} is {found!r}; expected {expected}")
        self.entry = entry


def load_table(path: Path) -> SpsTable:
    """Raises TableError, also when there is no such file."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TableError(str(path), "the file", error.strerror, "a readable JSON file") from None
    except ValueError as error:
        raise TableError(str(path), "the file", str(error), "JSON") from None
    return parse_table(raw, str(path))


def parse_table(raw: Any, where: str) -> SpsTable:
    """Raises TableError."""
    _require(isinstance(raw, dict), where, "the document", raw, "a JSON object")
    unknown = sorted(set(raw) - KEYS)
    _require(not unknown, where, f"key {unknown[0]!r}" if unknown else "", "unknown", f"only {sorted(KEYS)}")
    _require(raw.get("version") == VERSION, where, "version", raw.get("version"), f"{VERSION}")
    return SpsTable(
        widths=_widths(raw.get("widths"), where),
        provenance=_provenance(raw.get("provenance"), where),
        cost=_step_cost(raw["step_ms"], where) if "step_ms" in raw else None,
        acceptance=_acceptance(raw["acceptance"], where) if "acceptance" in raw else (),
        where=where,
    )


def check_block(table: SpsTable, block: int) -> None:
    """Raise TableError for a width that a drafter of this block cannot draft."""
    for index, width in enumerate(table.widths):
        _require(
            width <= block, table.where, f"widths[{index}] (batch {index + 1})", width, f"at most the block {block}"
        )


def render_table(table: SpsTable) -> dict[str, Any]:
    """The JSON object that `parse_table` reads back as the same table."""
    raw: dict[str, Any] = {"version": VERSION, "widths": list(table.widths), "provenance": dict(table.provenance)}
    if table.cost is not None:
        cost = table.cost
        raw["step_ms"] = {"batches": list(cost.batches), "widths": list(cost.widths), "ms": [list(r) for r in cost.ms]}
    if table.acceptance:
        raw["acceptance"] = list(table.acceptance)
    return raw


def _widths(raw: Any, where: str) -> tuple[int, ...]:
    _require(isinstance(raw, list) and len(raw) > 0, where, "widths", raw, "a list with a width for batch 1, 2, ...")
    for index, width in enumerate(raw):
        entry = f"widths[{index}] (batch {index + 1})"
        _require(_whole(width) and 0 <= width <= WIDEST, where, entry, width, f"a whole number from 0 to {WIDEST}")
    return tuple(max(1, width) for width in raw)


def _provenance(raw: Any, where: str) -> dict[str, Any]:
    _require(isinstance(raw, dict), where, "provenance", raw, "an object that says where the widths come from")
    for key in ("gpu", "source"):
        found = raw.get(key)
        _require(isinstance(found, str) and found != "", where, f"provenance.{key}", found, "a text")
    return raw


def _step_cost(raw: Any, where: str) -> StepCost:
    keys = {"batches", "widths", "ms"}
    _require(isinstance(raw, dict) and set(raw) == keys, where, "step_ms", raw, f"an object of {sorted(keys)}")
    for name in ("batches", "widths"):
        axis = raw[name]
        rising = isinstance(axis, list) and len(axis) > 0 and all(_whole(x) and x > 0 for x in axis)
        rising = rising and all(a < b for a, b in pairwise(axis))
        _require(rising, where, f"step_ms.{name}", axis, "rising whole numbers")
    rows = raw["ms"]
    shape = f"{len(raw['batches'])} rows of {len(raw['widths'])} times"
    _require(isinstance(rows, list) and len(rows) == len(raw["batches"]), where, "step_ms.ms", rows, shape)
    for i, row in enumerate(rows):
        complete = isinstance(row, list) and len(row) == len(raw["widths"])
        _require(complete, where, f"step_ms.ms[{i}] (batch {raw['batches'][i]})", row, shape)
        for j, value in enumerate(row):
            entry = f"step_ms.ms[{i}][{j}] (batch {raw['batches'][i]}, width {raw['widths'][j]})"
            _require(_number(value) and 0 < value < 1e9, where, entry, value, "milliseconds above 0")
    return StepCost(tuple(raw["batches"]), tuple(raw["widths"]), tuple(tuple(map(float, row)) for row in rows))


def _acceptance(raw: Any, where: str) -> tuple[float, ...]:
    _require(isinstance(raw, list) and len(raw) > 0, where, "acceptance", raw, "a list of probabilities")
    for index, value in enumerate(raw):
        entry = f"acceptance[{index}] (position {index + 1})"
        _require(_number(value) and 0 <= value <= 1, where, entry, value, "a probability from 0 to 1")
    return tuple(map(float, raw))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _require(held: bool, where: str, entry: str, found: object, expected: str) -> None:
    if not held:
        raise TableError(where, entry, found, expected)
