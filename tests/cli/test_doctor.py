"""`sglang-dspine doctor` as a command."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from sglang_dspine.cli.main import app
from sglang_dspine.doctor import environment
from tests.preflight.folders import SMALL, target
from tests.support.pairs import DEMO


@pytest.fixture
def doctor(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "check_symbols", lambda: [])  # takes seconds; tests/doctor has it
    for name in ("MODEL", "DRAFT", "API_KEY", "PORT", "HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("DSPINE_STATE", str(tmp_path))

    def run(*words):
        result = CliRunner().invoke(app, ["doctor", *map(str, words)])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output

    return run


def test_a_pair_that_fits_passes_and_every_line_has_a_level(doctor):
    status, output = doctor("--model", DEMO / "target", "--draft", DEMO / "draft")
    assert status == 0 and "memory budget" in output
    lines = output.partition("memory budget")[0].splitlines()
    assert all(line.split()[0] in ("ok", "warn") for line in lines)
    for part in ("Python", "SGLang", "plugin", "backends", "caches", "port", "target", "drafter", "with ReplaySSM"):
        assert part in output


def test_a_drafter_of_another_target_fails_with_what_to_do(doctor, tmp_path):
    status, output = doctor("--model", target(tmp_path / "m", **SMALL), "--draft", DEMO / "draft")
    assert status == 1 and "hidden_size differs from the target's" in output and "DRAFT=" in output


def test_every_failure_and_warning_says_what_to_do(doctor, tmp_path):
    _, output = doctor("--json", "--model", tmp_path / "nothing", "--url", "http://127.0.0.1:9")
    found = json.loads(output)
    assert not found["ok"] and {"target", "endpoint"} <= {f["what"] for f in found["findings"] if f["level"] == "fail"}
    assert all(f["todo"] for f in found["findings"] if f["level"] != "ok")


def test_json_holds_the_budget_in_bytes_with_the_state_both_ways(doctor):
    status, output = doctor(
        "--json", "--model", DEMO / "target", "--draft", DEMO / "draft", "--", "--max-running-requests", 4
    )
    found = json.loads(output)
    assert status == 0 and found["ok"]
    budget = found["budget"]
    assert budget["requests"] == 4 and budget["kv_bytes_per_token"] > 0
    state = budget["state_per_request"]
    assert state["slots"] * state["slot"] > 0 and not state["replay"] and state["verify"] > 15 * state["slot"]


def test_without_a_target_the_rest_is_still_looked_at(doctor):
    status, output = doctor()
    assert status == 0 and "not looked at; name it" in output


def test_a_setting_that_is_wrong_is_a_finding(doctor, monkeypatch):
    monkeypatch.setenv("PORT", "http")
    status, output = doctor()
    assert status == 1 and "PORT=http" in output
