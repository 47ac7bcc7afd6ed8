"""Metrics leave a process that SGLang exports from, and one rank of it alone."""

from types import SimpleNamespace

import pytest
from sglang.srt import runtime_context

from sglang_dspine.worker.exported import exports_metrics


@pytest.mark.parametrize(("asked", "rank", "answer"), [(True, 0, True), (True, 1, False), (False, 0, False)])
def test_the_flag_and_the_first_rank_decide(monkeypatch, asked, rank, answer):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "/somewhere")  # of another program, or left over: no answer
    monkeypatch.setattr(runtime_context, "get_parallel", lambda: SimpleNamespace(tp_rank=rank))
    assert exports_metrics(SimpleNamespace(enable_metrics=asked)) is answer
