"""Rounds by width, for /server_info and for Prometheus."""

from __future__ import annotations

import pytest

from sglang_dspine.worker.width_metrics import WidthMetrics


def test_rates_are_against_the_proposals_of_the_width():
    metrics = WidthMetrics(exported=False)
    metrics.round(2, 8)
    metrics.outcome(8, [7, 0])
    metrics.outcome(1, [0, 0])
    report = metrics.report()
    assert report["accept_length_by_width"] == {"1": 1.0, "8": 4.5}
    assert report["accept_rate_by_width"] == {"8": 0.5}, "plain decode proposes nothing"


def test_a_server_that_exports_metrics_exports_ours():
    registry = pytest.importorskip("prometheus_client").REGISTRY

    def value(name: str, **labels: str) -> float:
        return registry.get_sample_value(f"sglang:dspine_{name}_total", labels) or 0.0

    for metrics in (WidthMetrics(exported=True), WidthMetrics(exported=True)):  # two in a process share the counters
        before = value("rounds", width="8"), value("tokens", width="8"), value("proposals", width="8")
        metrics.round(2, 8)
        metrics.outcome(8, [7, 0])
        assert metrics.eager("draft") and not metrics.eager("draft")
        after = value("rounds", width="8"), value("tokens", width="8"), value("proposals", width="8")
        assert [b - a for a, b in zip(before, after, strict=True)] == [1, 9, 14]
    assert value("eager_forwards", forward="draft") == 4
