"""Repaired rows for Prometheus, where SGLang exports metrics."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

NAME = "sglang:dspine_repaired_rows_total"


@cache
def repaired_rows() -> Any | None:
    """The counter, once per process; None where nothing is exported, and on all TP ranks but the first: each repairs
    the same rows. Imported late: prometheus_client picks its multi-process folder when it is imported."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:  # SGLang sets it for --enable-metrics
        return None
    from sglang.srt.runtime_context import get_parallel

    if get_parallel().tp_rank != 0:
        return None
    from prometheus_client import Counter

    return Counter(NAME, "Target rows that were not finite, and repaired before accepting.")
