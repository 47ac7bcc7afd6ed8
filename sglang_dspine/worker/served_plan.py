"""The width plan of a server that has resolved its flags: the same in every rank, or none starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import DSpineError
from ..widths.parse import load_table
from ..widths.plan import WidthPlan, plan_widths
from ..widths.settings import WidthSettings


def served_plan(server_args: Any, block: int, widest: int) -> WidthPlan:
    """The plan that `algorithm.flags` settled on: it wrote down the table's path and the widest width.

    Raises:
        DSpineError: another rank, perhaps on another machine, has another plan.
    """
    from sglang.srt.runtime_context import get_spec

    path = get_spec().speculative_dspark_sps_table_path
    table = load_table(Path(path)) if path else None
    plan = plan_widths(WidthSettings.read(), table, widest, block, given=table is not None)
    found = plan.table  # where its file lies may differ between machines, what it says may not
    _same_on_all_ranks((plan.policy.name, plan.widest, plan.extra, found.widths, found.cost, found.acceptance))
    return plan


def _same_on_all_ranks(mine: object) -> None:
    import torch.distributed
    from sglang.srt.runtime_context import get_parallel

    group = get_parallel().tp_group
    if group.world_size == 1:
        return
    theirs: list[Any] = [None] * group.world_size
    torch.distributed.all_gather_object(theirs, repr(mine), group=group.cpu_group)
    other = next((rank for rank, plan in enumerate(theirs) if plan != repr(mine)), None)
    if other is not None:
        raise DSpineError(
            f"rank {other} plans other verify widths than this one: {theirs[other][:300]} against {repr(mine)[:300]}; "
            "give every machine the same SPS table and the same DSPINE_WIDTH_POLICY and DSPINE_WIDTHS"
        )
