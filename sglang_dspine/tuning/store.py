"""Raw measurements on disk, one line a visit, appended as they come: a killed run goes on where it was."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..evidence.lines import append_line
from .cells import Cell, Cells
from .failure import TuningError

RAW, ABOUT, PLAN, CSV = "visits.jsonl", "about.json", "plan.json", "cells.csv"


class Store:
    """The folder of one tuner run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, about: Mapping[str, Any]) -> Cells:
        """What was measured so far. Raises TuningError when the folder holds measurements of something else."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / ABOUT
        if path.exists():
            kept = json.loads(path.read_text())
            for key in sorted(set(kept) | set(about)):
                if kept.get(key) != about.get(key):
                    raise TuningError(
                        f"{self.folder} holds measurements with {key} {kept.get(key)!r}, this run has "
                        f"{about.get(key)!r}; name another folder with --out, or delete that one"
                    )
        path.write_text(json.dumps(dict(about), indent=1) + "\n")
        return self.cells()

    def about(self) -> dict[str, Any]:
        path = self.folder / ABOUT
        if not path.exists():
            raise TuningError(f"{self.folder}: no measurements ({ABOUT} is missing); run the tuner with --url first")
        return json.loads(path.read_text())

    def plan(self, batches: Sequence[int], widths: Sequence[int]) -> None:
        """Remember the grid of the last run: the folder may hold cells of others, too."""
        (self.folder / PLAN).write_text(json.dumps({"batches": list(batches), "widths": list(widths)}) + "\n")

    def planned(self) -> Cells:
        """The cells of the last plan that hold a visit."""
        path = self.folder / PLAN
        if not path.exists():
            return self.cells()
        plan = json.loads(path.read_text())
        return {(b, w): cell for (b, w), cell in self.cells().items() if b in plan["batches"] and w in plan["widths"]}

    def add(self, batch: int, width: int, ms: float, accepted: float) -> None:
        line = json.dumps({"batch": batch, "width": width, "ms": ms, "accepted": accepted})
        append_line(self.folder / RAW, line)

    def cells(self) -> Cells:
        """A last line that a kill cut short is left out."""
        cells: Cells = {}
        path = self.folder / RAW
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                visit = json.loads(line)
            except ValueError:
                continue
            key = visit["batch"], visit["width"]
            cell = cells.setdefault(key, Cell(*key))
            cell.visits.append(visit["ms"])
            cell.accepted.append(visit["accepted"])
        return cells

    def write_csv(self, rows: list[dict[str, Any]]) -> Path:
        path = self.folder / CSV
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return path
