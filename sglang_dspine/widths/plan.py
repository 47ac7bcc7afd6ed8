"""From flags, environment and table to what a server does: its policy, and the widths it must be ready for."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import FlagError
from .adaptive import AdaptivePolicy
from .parse import check_block
from .policy import Policy, TablePolicy
from .settings import WidthSettings
from .table import SpsTable, constant


@dataclass(frozen=True)
class WidthPlan:
    """What `widths_of` names for a batch size is captured for it."""

    policy: Policy
    widest: int
    table: SpsTable
    extra: tuple[int, ...] = ()

    def widths_of(self, batch: int) -> tuple[int, ...]:
        return tuple(sorted({*self.policy.widths_of(batch), *self.extra}))

    @property
    def uses_table(self) -> bool:
        return self.policy.name != "fixed"

    @property
    def all_widths(self) -> tuple[int, ...]:
        """Every width of every batch size, ascending."""
        batches = range(1, len(self.table.widths) + 1)
        return tuple(sorted({width for batch in batches for width in self.widths_of(batch)}))


def plan_widths(
    settings: WidthSettings, table: SpsTable | None, asked: int | None, block: int, given: bool = False
) -> WidthPlan:
    """Put the policy together.

    Args:
        table: what `find_table` found. asked: --speculative-num-draft-tokens, None when unset. block: the drafter's.
        given: the user named the table, rather than that it lay in its place.
    Raises:
        FlagError, TableError: the parts contradict each other; the message says which to change.
    """
    outside = [width for width in settings.extra if width > block]
    if outside:
        raise FlagError(f"DSPINE_WIDTHS names {outside[0]}; this checkpoint's block is {block}, expected 1 to {block}")
    if asked is not None and not settings.chosen and not given:
        table = None  # whoever names one width means it
    if table is None or settings.policy == "fixed":
        if settings.policy == "adaptive":
            raise FlagError(
                "DSPINE_WIDTH_POLICY=adaptive needs an SPS table with measured step times, and none was found; run "
                "sps-tuning/tune_sps.py, then name its table in DSPINE_SPS_TABLE"
            )
        table = constant(asked or block, "one width")
        policy: Policy = TablePolicy(table, "fixed")
    else:
        check_block(table, block)
        policy = _policy(settings, table, block)
    plan = WidthPlan(policy, 0, table, settings.extra)
    widest = max(2, *plan.all_widths)  # SGLang speculates with at least one proposal
    if asked is not None and asked < widest:
        raise FlagError(
            f"--speculative-num-draft-tokens {asked}: {table.where} and DSPINE_WIDTHS use widths up to {widest}; pass "
            f"{widest} or leave it unset, or set DSPINE_WIDTH_POLICY=fixed"
        )
    return WidthPlan(policy, asked or widest, table, settings.extra)


def _policy(settings: WidthSettings, table: SpsTable, block: int) -> Policy:
    if settings.policy == "table":
        return TablePolicy(table)
    measured = table.cost.widths if table.cost is not None else ()
    return AdaptivePolicy(table, settings.extra or tuple(width for width in measured if width <= block))
