"""Flags, environment and table together give one plan, or say which of them to change."""

from __future__ import annotations

import pytest

from sglang_dspine.errors import DSpineError, FlagError
from sglang_dspine.widths.parse import TableError
from sglang_dspine.widths.plan import plan_widths
from sglang_dspine.widths.settings import WidthSettings
from sglang_dspine.widths.step_cost import StepCost
from sglang_dspine.widths.table import SpsTable

DEFAULT = WidthSettings()
TABLE = SpsTable((12, 8, 1), {"gpu": "g", "source": "s"}, where="sps.json")
MEASURED = SpsTable((12, 8), {}, StepCost((1,), (1, 8, 16), ((1.0, 2.0, 3.0),)), where="sps.json")


def test_without_a_table_every_batch_has_the_block():
    plan = plan_widths(DEFAULT, None, None, 16)
    assert (plan.policy.name, plan.widest, plan.all_widths) == ("fixed", 16, (16,)) and not plan.uses_table


def test_a_table_gives_the_widths_and_the_widest_sizes_the_pools():
    plan = plan_widths(DEFAULT, TABLE, None, 16)
    assert (plan.policy.name, plan.widest, plan.all_widths) == ("table", 12, (1, 8, 12))
    assert [plan.widths_of(b) for b in (1, 2, 3, 50)] == [(12,), (8,), (1,), (1,)]


def test_one_width_on_the_command_line_is_meant_unless_a_table_is_named():
    assert plan_widths(DEFAULT, TABLE, 8, 16).policy.name == "fixed"
    assert plan_widths(DEFAULT, TABLE, 16, 16, given=True).widest == 16
    with pytest.raises(FlagError, match=r"tokens 8: .* up to 12; pass 12"):
        plan_widths(DEFAULT, TABLE, 8, 16, given=True)


def test_fixed_ignores_the_table():
    assert plan_widths(WidthSettings("fixed", True), TABLE, None, 16).all_widths == (16,)


def test_extra_widths_are_ready_for_every_batch():
    plan = plan_widths(WidthSettings(extra=(2, 16)), TABLE, None, 16)
    assert plan.widths_of(3) == (1, 2, 16) and plan.widest == 16
    with pytest.raises(FlagError, match="DSPINE_WIDTHS names 32; this checkpoint's block is 16"):
        plan_widths(WidthSettings(extra=(2, 32)), TABLE, None, 16)


def test_adaptive_chooses_among_the_measured_widths():
    plan = plan_widths(WidthSettings("adaptive", True), MEASURED, None, 16)
    assert plan.policy.name == "adaptive" and plan.widths_of(5) == (1, 8, 16)
    with pytest.raises(FlagError, match="none was found"):
        plan_widths(WidthSettings("adaptive", True), None, None, 16)


def test_a_table_wider_than_the_block_is_refused_with_the_entry():
    with pytest.raises(TableError, match=r"widths\[0\] \(batch 1\) is 12"):
        plan_widths(DEFAULT, TABLE, None, 8)


def test_a_table_of_plain_decode_alone_still_leaves_sglang_a_block_of_two():
    plan = plan_widths(DEFAULT, SpsTable((1,), {}), None, 16)
    assert plan.widest == 2 and plan.all_widths == (1,)


def test_step_times_of_widths_beyond_the_block_alone_are_refused_by_name():
    wide = SpsTable((1,), {}, StepCost((1,), (8, 16), ((2.0, 3.0),)), where="sps.json")
    with pytest.raises(DSpineError, match=r"sps\.json has step times for widths \[8, 16\]"):
        plan_widths(WidthSettings("adaptive", True), wide, None, 4)


def test_adaptive_on_a_table_without_step_times_is_refused_with_the_way_out():
    with pytest.raises(DSpineError, match=r"sps\.json holds none; run .*tune_sps\.py"):
        plan_widths(WidthSettings("adaptive", True), TABLE, None, 16)
