"""An SGLang plugin for tests of tensor parallelism, steered by the folder $COLLECTIVE_LOG.

collectives    rank 0's, one a line: kind and bytes
rounds.RANK    what each rank committed, a round a line
noise          while it exists, rank 1's floats are off by a percent after every collective
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

import torch

GROUP = "sglang.srt.distributed.parallel_state.GroupCoordinator"
WORKER = "sglang_dspine.worker.dspine_worker"
KINDS = {"all_reduce": "all-reduce", "all_gather": "all-gather", "broadcast": "broadcast"}


def register() -> None:
    folder = os.environ.get("COLLECTIVE_LOG")
    if not folder:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for method, kind in KINDS.items():
        HookRegistry.register(f"{GROUP}.{method}", logged(kind, Path(folder)), HookType.AROUND)


def write(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")


def logged(kind: str, folder: Path):
    def call(original, group, values, *args, **kwargs):
        if group.world_size == 1:
            return original(group, values, *args, **kwargs)
        watch_rounds(folder, group.rank_in_group)
        if group.rank_in_group == 0:
            write(folder / "collectives", f"{kind} {values.nbytes}")
        result = original(group, values, *args, **kwargs)
        if group.rank_in_group == 1 and result.is_floating_point() and (folder / "noise").exists():
            result.mul_(1 + 0.01 * torch.randn_like(result))
        return result

    return call


def watch_rounds(folder: Path, rank: int) -> None:
    """Once the worker's module is there: this plugin must not be what loads it in every process."""
    worker = sys.modules.get(WORKER)
    if worker is None or hasattr(getattr(worker, "decode_round", None), "__wrapped__"):
        return
    original = worker.decode_round

    @functools.wraps(original)
    def round_written_down(*args, **kwargs):
        result = original(*args, **kwargs)
        lengths = result.accept_lens.tolist()
        rows = result.next_token_ids.view(len(lengths), -1).tolist()
        write(folder / f"rounds.{rank}", repr([row[:n] for row, n in zip(rows, lengths, strict=True)]))
        return result

    worker.decode_round = round_written_down
