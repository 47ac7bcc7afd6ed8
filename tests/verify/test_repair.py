"""Rows that are not finite are made usable before anyone reads them; the others are not touched (report 1)."""

from __future__ import annotations

import logging
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_dspine.verify import repair_log
from sglang_dspine.verify.repair import (
    ADJUSTED,
    EMPTY,
    FINE,
    INFINITE,
    PROBABILITIES,
    repair_adjusted,
    repair_probabilities,
    repair_rows,
)
from sglang_dspine.verify.repair import (
    NAN as NANS,
)
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
    assert bad.tolist() == [{5: NANS, 6: INFINITE}.get(i, FINE) for i in range(8)]
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
    assert repair_rows(logits).tolist() == [{"nan": NANS, "inf": INFINITE, "-inf": EMPTY}[str(value)]]
    assert logits.argmax() == 0 and torch.equal(logits, torch.zeros(1, V))


def test_rows_that_a_request_spoils_itself_are_told_apart_and_a_full_mask_is_no_fault():
    logits = rows(n=4)
    logits[1, 3], logits[2, 4], logits[3] = NAN, INF, -INF
    kept = logits[0].clone()
    assert repair_adjusted(logits).tolist() == [FINE, ADJUSTED, ADJUSTED, FINE]
    assert torch.equal(logits[0], kept) and logits.argmax(-1)[3] == 0


@pytest.mark.parametrize("row", [[NAN] * V, [0.0] * V, [INF] + [0.0] * (V - 1), [0.5, NAN] + [0.0] * (V - 2)])
def test_probabilities_that_are_no_distribution_become_certain_of_the_best_token(row):
    probs = rows(n=3).softmax(-1)
    kept = probs.clone()
    probs[1] = torch.tensor(row)
    assert repair_probabilities(probs, torch.tensor([5, 7, 9])).tolist() == [FINE, PROBABILITIES, FINE]
    assert torch.equal(probs[[0, 2]].view(torch.uint8), kept[[0, 2]].view(torch.uint8))
    assert probs[1].tolist() == [float(i == 7) for i in range(V)]


def causes(*rows_of: list[int]) -> torch.Tensor:
    return torch.tensor(rows_of, dtype=torch.int8)


def test_repaired_rows_are_counted_by_cause_and_every_request_is_named_once(caplog):
    log = RepairLog()
    with caplog.at_level(logging.WARNING):
        log.note(causes([0] * 4, [0] * 4, [0] * 4), ["a", "b", "c"])
        assert log.total == 0 and not caplog.records
        log.note(causes([0] * 4, [0, 0, NANS, INFINITE], [0] * 4), ["a", "b", "c"])
        log.note(causes([0] * 4, [0, NANS, NANS, NANS], [PROBABILITIES, 0, 0, 0]), ["d", "b", "f"])
    assert log.by_cause == {"nan_logits": 4, "infinite_logits": 1, "probabilities": 1} and log.total == 6
    first, second = (record.getMessage() for record in caplog.records)
    assert "request b " in first and "1 x infinite_logits, 1 x nan_logits" in first
    assert "request f " in second and "1 x probabilities" in second


def test_what_was_named_long_ago_is_forgotten_and_the_list_stays_short(monkeypatch, caplog):
    monkeypatch.setattr(repair_log, "REMEMBERED", 3)
    log = RepairLog()
    for rid in "abcdea":
        log.note(causes([NANS]), [rid])
    assert len(log._named) == 3 and len(caplog.records) == 6


def test_repaired_rows_are_exported_by_cause_where_sglang_exports_metrics(monkeypatch):
    class Exported(Counter):
        def labels(self, cause):
            return SimpleNamespace(inc=lambda rows: self.update({cause: rows}))

    exported = Exported()
    monkeypatch.setattr(repair_log, "repaired_rows", lambda: exported)
    for log in (RepairLog(exported=True), RepairLog()):
        log.note(causes([NANS, FINE], [EMPTY, EMPTY]), ["a", "b"])
        log.note(causes([FINE, FINE]), ["a"])
        assert exported == {"nan_logits": 1, "no_finite_logit": 2} and log.total == 3
