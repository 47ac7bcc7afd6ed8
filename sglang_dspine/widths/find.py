"""Where the SPS table of a server comes from: a path that was given, the draft checkpoint, this package, nowhere."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from .parse import TableError, load_table
from .table import SpsTable

logger = logging.getLogger(__name__)
VARIABLE = "DSPINE_SPS_TABLE"
FLAG = "--speculative-dspark-sps-table-path"  # SGLang's own, a free text; a plugin cannot add a flag
BESIDE = "sps.json"
PACKAGED = Path(__file__).parent / "packaged"


def find_table(flag: str | None, draft: Path, gpu: str | None, packaged: Path = PACKAGED) -> SpsTable | None:
    """The table to use, or None.

    Args:
        flag: value of FLAG. gpu: name of the GPU as torch says it, None without one.
    Raises:
        TableError: a table that was found is wrong, or one that was asked for is not there.
    """
    variable = os.environ.get(VARIABLE)
    if variable and flag and variable != flag:
        raise TableError(variable, VARIABLE, variable, f"the same table as {FLAG} {flag}; leave one of them out")
    if variable or flag:
        return load_table(Path(variable or flag or ""))
    if (draft / BESIDE).is_file():
        return load_table(draft / BESIDE)
    return packaged_table(gpu, packaged)


def packaged_table(gpu: str | None, packaged: Path = PACKAGED) -> SpsTable | None:
    """The one that was measured on a GPU of this name; none names no GPU."""
    for path in sorted(packaged.glob("sps-*.json")):
        table = load_table(path)
        if table.gpu == gpu:
            return table
    return None
