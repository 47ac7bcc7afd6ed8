"""Repaired rows for Prometheus, where SGLang exports metrics."""

from __future__ import annotations

from functools import cache
from typing import Any

NAME = "sglang:dspine_repaired_rows_total"


@cache
def repaired_rows() -> Any:
    """The counter, once per process. Imported late: prometheus_client picks its multi-process folder when imported."""
    from prometheus_client import Counter

    return Counter(NAME, "Target rows that were not finite, and repaired before accepting.", ["cause"])
