"""The table's policy gives the table's width, whatever was accepted, and counts its rounds."""

from __future__ import annotations

from sglang_dspine.widths.policy import TablePolicy
from sglang_dspine.widths.table import SpsTable


def test_rounds_are_counted_by_the_width_that_the_table_gave_them():
    policy = TablePolicy(SpsTable((16, 8)))
    for batch in (1, 2, 3):
        policy.note(batch, policy.choose(batch), [0] * batch)
    assert policy.choose(1) == 16
    assert policy.report() == {"chosen": {"8": 2, "16": 2}}
