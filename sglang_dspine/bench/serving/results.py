"""A measured run read back: a folder that `sglang-dspine bench` wrote, or a file that `sglang.bench_serving` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import DSpineError
from .cell import Cell


@dataclass(frozen=True)
class Run:
    """Cells of all arms, and what the run said about itself."""

    cells: tuple[Cell, ...]
    header: dict[str, Any] = field(default_factory=dict)
    where: str = ""

    @property
    def arms(self) -> list[str]:
        """In the order of the plan: the first is the baseline."""
        planned = [arm["name"] for arm in self.header.get("arms", [])]
        return list(dict.fromkeys([*planned, *(cell.arm for cell in self.cells)]))

    @property
    def users(self) -> list[int]:
        return sorted({cell.users for cell in self.cells})

    def of(self, arm: str, users: int) -> list[Cell]:
        """Repetitions in order."""
        return sorted((c for c in self.cells if c.arm == arm and c.users == users), key=lambda c: c.repetition)


def read_run(path: Path) -> Run:
    """Raises DSpineError when `path` is neither."""
    if path.is_dir():
        file = path / "cells.jsonl"
        cells = tuple(Cell.from_dict(value) for _, value in _lines(file))
        header = path / "run.json"
        return Run(cells, json.loads(header.read_text()) if header.exists() else {}, str(path))
    return read_bench_serving(path)


def read_bench_serving(path: Path) -> Run:
    """One cell a line of `sglang.bench_serving --output-file`; lines of one tag and concurrency are repetitions.

    The arm is the line's `tag`, else the file's name. What that tool does not write stays empty.
    """
    cells: list[Cell] = []
    for number, line in _lines(path):
        if "output_throughput" not in line or "total_output_tokens" not in line:
            raise DSpineError(f"{path}:{number}: is no result of sglang.bench_serving: no output_throughput")
        arm = line.get("tag") or path.stem
        users = int(line.get("max_concurrency") or round(line.get("concurrency") or 0) or 1)
        asked = len(line["errors"]) if line.get("errors") else line["completed"]
        cells.append(
            Cell(
                arm=arm,
                users=users,
                repetition=sum(c.arm == arm and c.users == users for c in cells),
                seed=0,
                requests=asked,
                failed=asked - line["completed"],
                seconds=line["duration"],
                completion_tokens=line["total_output_tokens"],
                tok_s=line["output_throughput"],
                user_tok_s=1e3 / line["mean_tpot_ms"] if line.get("mean_tpot_ms") else None,
                ttft_ms=_percentiles(line, "ttft"),
                itl_ms=_percentiles(line, "itl"),
                stall_ms={},
                accepted_length=line.get("accept_length"),
                prompt_tokens=line.get("total_input_tokens", 0),
                cached_tokens=(line.get("cache_report") or {}).get("total_cached_tokens", 0),
            )
        )
    return Run(tuple(cells), {}, str(path))


def _percentiles(line: dict[str, Any], what: str) -> dict[str, float]:
    names = {"50": f"median_{what}_ms", "90": f"p90_{what}_ms", "99": f"p99_{what}_ms"}
    return {p: line[name] for p, name in names.items() if line.get(name) is not None}


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DSpineError(
            f"{path}: {error}; expected a folder of `sglang-dspine bench` or a file of sglang.bench_serving"
        ) from error
    found = 0
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                value = json.loads(line)
            except json.JSONDecodeError as error:
                raise DSpineError(f"{path}:{number}: not JSON ({error})") from error
            found += 1
            yield number, value
    if not found:
        raise DSpineError(f"{path}: holds no results")
