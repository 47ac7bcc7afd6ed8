"""Reports as JSON and for the eye."""

from __future__ import annotations

import io
import json

import numpy as np
from rich.console import Console

from sglang_dspine.exactness.report import FAILED, PASSED, Report, Table

REPORT = Report(
    "E2",
    "http://[server]",
    False,
    ("worst ratio inf",),
    (Table("rows", ("n", "delta"), [(np.int64(3), float("inf")), (4, None)]),),
    {"ratio": float("nan"), "n": np.float64(2.5)},
)


def test_json_has_no_infinities_and_no_numpy(tmp_path):
    REPORT.write(tmp_path / "r.json")
    written = json.loads((tmp_path / "r.json").read_text(), parse_constant=lambda name: 1 / 0)
    assert written["facts"] == {"ratio": "nan", "n": 2.5}
    assert written["tables"][0]["rows"] == [[3, "inf"], [4, None]]
    assert written["passed"] is False


def test_the_readable_form_shows_verdict_findings_and_tables():
    out = io.StringIO()
    REPORT.show(Console(file=out, width=80))
    for part in ("E2", "FAIL", "http://[server]", "worst ratio inf", "delta"):
        assert part in out.getvalue()


def test_the_status_is_the_verdict():
    assert REPORT.status == FAILED == 1
    assert Report("E3", "", True, ()).status == PASSED == 0
