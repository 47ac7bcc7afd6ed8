"""The drafted block: the anchor in row 0, masks behind it, at the positions and slots that follow the prefix."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from sglang_dspine.draft.block import prepare_block

MASK, WIDTH = 259, 16


@pytest.fixture(params=[torch.tensor([7, 120, 1]), None], ids=["", "no lengths on the host"])
def block(request):
    table = torch.arange(4 * 200, dtype=torch.int32).view(4, 200) + 1000  # slot of every position of four requests
    planned = {}
    runner = SimpleNamespace(
        req_to_token_pool=SimpleNamespace(req_to_token=table),
        kv_index_translator=SimpleNamespace(plan=lambda **given: planned.update(given) or "plan"),
    )
    batch = SimpleNamespace(
        seq_lens=torch.tensor([7, 120, 1]), seq_lens_cpu=request.param,
        req_pool_indices=torch.tensor([2, 0, 3]),
    )  # fmt: skip
    draft_input = SimpleNamespace(bonus_tokens=torch.tensor([11, 12, 13]), nxt_kv_lens_cpu=torch.tensor([16, 128, 16]))
    made = prepare_block(batch, draft_input, runner, WIDTH, MASK)
    planned["host"] = draft_input.nxt_kv_lens_cpu if request.param is None else request.param
    return made, table, planned


@pytest.mark.report(11)
@pytest.mark.report(12)
def test_row_0_is_the_anchor_and_the_fifteen_others_are_masks(block):
    made, _, _ = block
    assert made.ids[:, 0].tolist() == [11, 12, 13] == made.anchor.tolist()
    assert made.ids.shape == (3, 16) and (made.ids[:, 1:] == MASK).all()


def test_positions_follow_the_committed_prefix(block):
    made, _, _ = block
    assert [row.tolist() for row in made.positions] == [list(range(n, n + WIDTH)) for n in (7, 120, 1)]


def test_slots_are_those_of_the_positions_in_the_requests_own_rows(block):
    made, table, planned = block
    expected = [table[row, n : n + WIDTH].tolist() for row, n in ((2, 7), (0, 120), (3, 1))]
    assert made.cache_loc.tolist() == expected
    assert planned["write_virtual"].tolist() == [slot for row in expected for slot in row]
    assert planned["read_extent"] == WIDTH
    assert planned["seq_lens_cpu"] is planned["host"], "the committed lengths, else the reserved ones"
    assert made.plan == "plan"
