"""An SGLang plugin for tests: rank 0 writes down the collectives of its groups, one a line, to $COLLECTIVE_LOG."""

from __future__ import annotations

import os

GROUP = "sglang.srt.distributed.parallel_state.GroupCoordinator"
KINDS = {"all_reduce": "all-reduce", "all_gather": "all-gather", "broadcast": "broadcast"}


def register() -> None:
    path = os.environ.get("COLLECTIVE_LOG")
    if not path:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for method, kind in KINDS.items():
        HookRegistry.register(f"{GROUP}.{method}", logged(kind, path), HookType.AROUND)


def logged(kind: str, path: str):
    def call(original, group, values, *args, **kwargs):
        if group.world_size > 1 and group.rank_in_group == 0:
            with open(path, "a") as file:
                file.write(f"{kind} {values.nbytes}\n")
        return original(group, values, *args, **kwargs)

    return call
