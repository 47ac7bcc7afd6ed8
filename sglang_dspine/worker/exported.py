"""Does this process export metrics? One answer for all counters of the plugin."""

from __future__ import annotations

from typing import Any


def exports_metrics(server_args: Any) -> bool:
    """With `--enable-metrics`, and on the first TP rank alone: every rank sees the same rounds."""
    from sglang.srt.runtime_context import get_parallel

    return bool(server_args.enable_metrics) and get_parallel().tp_rank == 0
