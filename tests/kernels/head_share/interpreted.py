"""A rank's share of the table's input under Triton's interpreter; `../test_interpreted.py` runs it."""

from __future__ import annotations

import pytest
import torch

from sglang_dspine.kernels.head_rows.form import StoredHead
from sglang_dspine.kernels.head_share.naive import Share, head_share_naive
from sglang_dspine.kernels.head_share.plan import plan_head_share
from sglang_dspine.kernels.table_walk.parts import Draw, Prepared, Proposal
from sglang_dspine.kernels.table_walk.plan import plan_table_walk
from tests.kernels.head_rows.quantise import fp8_head, nvfp4_head
from tests.kernels.table_walk.interpreted import VOCAB, Case


def shares(case: Case, size: int, kernel: bool, head: StoredHead | None = None) -> list[Share]:
    """What each rank sends; ranks own equal runs of the padded vocabulary."""
    rows, m = -(-VOCAB // size), case.receive.shape[-1]
    stored = head or case.stored
    full = (stored.rows(torch.arange(VOCAB), case.x.dtype) * case.weights.norm) @ case.weights.write
    found = []
    for start in range(0, rows * size, rows):
        here = slice(min(start, VOCAB), min(start + rows, VOCAB))
        share, owned = Share(case.candidates, m, case.x.dtype), here.stop - here.start
        part = StoredHead(stored.weight[here], stored.hidden, stored.form, _part(stored.scales, here), stored.scale)
        if kernel:
            prepared = Prepared(case.prepared.gram, full[here].contiguous())
            plan_head_share(case.x, case.candidates, case.weights, prepared, part, here.start, owned, share).run()
        else:
            rows_of = lambda ids, part=part: part.rows(ids, case.x.dtype)  # noqa: E731
            head_share_naive(case.x, case.candidates, case.weights, rows_of, here.start, owned, share)
        found.append(share)
    return found


def _part(scales, here):
    return None if scales is None else scales[here]


def summed(found: list[Share]):
    return found[0].given(torch.stack([share.payload for share in found]).sum(0))


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("n, rows, hidden, m, k", [(1, 1, 24, 12, 16), (3, 2, 40, 20, 8)])
def test_each_ranks_share_is_the_naive_one_at_odd_shapes(n, rows, hidden, m, k, size):
    case = Case(n, rows, hidden, m, k)
    for kernel, naive in zip(shares(case, size, True), shares(case, size, False), strict=True):
        torch.testing.assert_close(kernel.payload, naive.payload, rtol=1e-5, atol=1e-5)
        assert torch.equal(kernel.payload == 0, naive.payload == 0), "another rank's candidates are zeros"


def test_a_bfloat16_model_sends_bfloat16_and_loses_nothing_of_the_dot():
    case, exact = Case(dtype=torch.bfloat16), Case(dtype=torch.bfloat16)
    found = summed(shares(case, 2, True))
    own = (exact.head[exact.candidates].float() * exact.weights.norm.float() * exact.x[:, :, None].float()).sum(-1)
    torch.testing.assert_close(found.own, own, rtol=1e-5, atol=1e-5)
    assert torch.equal(found.seen, case.prepared.seen[case.candidates])


def test_an_fp8_heads_rows_are_read_on_their_rank():
    case, (head, rows) = Case(hidden=64), fp8_head(VOCAB, 64)
    own = (rows[case.candidates].float() * case.weights.norm * case.x[:, :, None]).sum(-1)
    torch.testing.assert_close(summed(shares(case, 2, True, head)).own, own, rtol=1e-4, atol=1e-4)


def test_an_nvfp4_heads_rows_are_read():
    case, (head, rows) = Case(hidden=64), nvfp4_head(VOCAB, 64)
    own = (rows[case.candidates].float() * case.weights.norm * case.x[:, :, None]).sum(-1)
    torch.testing.assert_close(summed(shares(case, 1, True, head)).own, own, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("size", [2, 3])
def test_table_and_walk_on_the_sum_are_those_of_the_whole_head(size, wide):
    case = Case(3, 2, 40, 20, 8, seed=5)
    n, rows, k = case.candidates.shape
    whole = case.run(wide)
    proposal = Proposal(torch.zeros(n, rows, dtype=torch.int64), case.candidates.clone(), torch.zeros(n, rows, k))
    launches, scores = plan_table_walk(
        case.x, case.receive, (case.stream @ case.weights.write)[:, 1:], case.candidates, case.anchor, case.weights,
        case.prepared, None, Draw(case.temperatures, case.greedy, case.uniforms), proposal, wide,
        given=summed(shares(case, size, True)),
    )  # fmt: skip
    for launch in launches:
        launch.run()
    torch.testing.assert_close(scores, whole[0], rtol=1e-5, atol=1e-5)
    assert torch.equal(proposal.tokens, whole[1])


def test_a_row_that_is_not_finite_stays_on_its_rank():
    case = Case(seed=6)
    case.head[:30] = float("nan")
    low, high = shares(case, 2, True)
    assert not high.payload.isnan().any() and low.payload.isnan().any()
