"""Rows that are not finite are made usable before anyone reads them; the others are not touched (report 1)."""

from __future__ import annotations

import logging

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_dspine.verify.repair import repair_rows
from sglang_dspine.verify.repair_log import RepairLog

pytestmark = pytest.mark.report(1)
NAN, INF = float("nan"), float("inf")
V = 40


def rows(seed: int = 0, n: int = 8, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(n, V, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_finite_rows_keep_every_bit(dtype):
    logits = rows(dtype=dtype)
    logits[2, :30] = -INF  # a grammar's mask is no fault
    kept = logits.clone()
    logits[5], logits[6, 3] = NAN, INF
    bad = repair_rows(logits)
    good = [0, 1, 2, 3, 4, 7]
    assert bad.tolist() == [i in (5, 6) for i in range(8)]
    assert torch.equal(logits[good].view(torch.uint8), kept[good].view(torch.uint8))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 999), values=st.lists(st.sampled_from([NAN, INF, -INF]), min_size=1, max_size=V))
def test_whatever_a_row_holds_softmax_and_argmax_are_usable_after(seed, values):
    logits = rows(seed, 1)
    places = torch.randperm(V, generator=torch.Generator().manual_seed(seed))[: len(values)]
    logits[0, places] = torch.tensor(values)
    before = logits.clone()
    bad = repair_rows(logits)
    probs = logits.softmax(-1)
    assert probs.isfinite().all() and probs.sum() == pytest.approx(1)
    finite = before[0].isfinite()
    assert bool(bad) == bool(before[0].isnan().any() | (before[0] == INF).any() | ~finite.any())
    if finite.any():  # the best of what was finite, and never a token that was not
        assert finite[logits.argmax()] and logits.argmax() == before[0].masked_fill(~finite, -INF).argmax()
        assert (probs[0, ~finite] == 0).all()


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_a_row_with_nothing_left_yields_the_lowest_id_and_never_the_last(value):
    logits = torch.full((1, V), value)
    assert repair_rows(logits).tolist() == [True]
    assert logits.argmax() == 0 and torch.equal(logits, torch.zeros(1, V))


def test_repaired_rows_are_counted_and_the_first_request_is_named_once(caplog):
    log = RepairLog()
    flags = torch.zeros(3, 4, dtype=torch.bool)
    with caplog.at_level(logging.WARNING):
        log.note(flags, ["a", "b", "c"])
        assert log.total == 0 and not caplog.records
        flags[1, 2:] = True
        log.note(flags, ["a", "b", "c"])
        flags[0, 0] = True
        log.note(flags, ["d", "e", "f"])
    assert log.total == 2 + 3
    (record,) = caplog.records
    assert "request b" in record.getMessage() and "2 rows" in record.getMessage()


def test_repaired_rows_are_exported_where_sglang_exports_metrics(monkeypatch):
    from sglang_dspine.verify import repair_log

    class Exported:
        rows = 0

        def inc(self, rows: int) -> None:
            self.rows += rows

    exported = Exported()
    monkeypatch.setattr(repair_log, "repaired_rows", lambda: exported)
    log = RepairLog()
    log.note(torch.tensor([[True, False], [True, True]]), ["a", "b"])
    log.note(torch.tensor([[False, False]]), ["a"])
    assert exported.rows == log.total == 3


def test_nothing_is_exported_where_sglang_exports_nothing(monkeypatch):
    from sglang_dspine.verify.repair_metrics import repaired_rows

    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    repaired_rows.cache_clear()
    assert repaired_rows() is None
    repaired_rows.cache_clear()
