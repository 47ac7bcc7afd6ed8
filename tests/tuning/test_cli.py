"""The command: simulated runs find the optimum or fail, and a table can be made anew without measuring."""

from __future__ import annotations

import csv
import json

import pytest
from typer.testing import CliRunner

from sglang_dspine.tuning import cli
from sglang_dspine.tuning.simulated import PROFILE, known_cost
from sglang_dspine.widths.acceptance import expected_length
from sglang_dspine.widths.parse import load_table


def run(*words: str):
    return CliRunner().invoke(cli.app, list(words))


@pytest.fixture
def measured(tmp_path):
    result = run("--simulate", "known", "--out", str(tmp_path), "--acceptance", ",".join(map(str, PROFILE)))
    assert result.exit_code == 0, result.output
    return tmp_path


def test_a_simulated_run_recovers_the_optimum_and_writes_everything(measured):
    table = load_table(measured / "sps.json")
    for batch in (1, 2, 4, 8, 16, 32):
        rate = {w: expected_length(PROFILE, w) / known_cost(batch, w) for w in (1, 2, 4, 8, 12, 16)}
        assert rate[table.width_of(batch)] > 0.98 * max(rate.values())
    assert "SIMULATED" in table.provenance["status"]
    report = (measured / "REPORT.md").read_text()
    assert "| users | width 1 |" in report and "**" in report
    rows = list(csv.DictReader((measured / "cells.csv").open()))
    assert len(rows) == 36 and sum(int(row["chosen"]) for row in rows) == 6


@pytest.mark.report(31)
def test_times_that_do_not_vary_with_width_make_no_table(tmp_path):
    result = run("--simulate", "flat", "--out", str(tmp_path))
    assert result.exit_code == 1 and not (tmp_path / "sps.json").exists()
    assert "do not depend on the width" in result.output


def test_another_profile_needs_no_measuring(measured):
    other = measured / "other.json"
    assert run("--combine", "--out", str(measured), "--acceptance", "0.01", "--table", str(other)).exit_code == 0
    assert load_table(other).widths == (1,)


def test_nothing_is_combined_from_an_empty_folder(tmp_path):
    result = run("--combine", "--out", str(tmp_path))
    assert result.exit_code == 1 and "no measurements" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--url of a running server"),
        (("--simulate", "maybe"), "'known' or 'flat'"),
        (("--widths", "8,x", "--simulate", "known"), "expected numbers from 1"),
        (("--acceptance", "1.5", "--simulate", "known"), "expected published"),
        (("--url", "http://127.0.0.1:9"), "is the server up?"),
        (("--prompts", "no/such.txt", "--simulate", "known"), "expected a text file with one prompt a line"),
        (("--table", "no/such/sps.json", "--simulate", "known"), "no/such is no folder"),
    ],
)
def test_a_wrong_word_is_answered_with_the_right_one(tmp_path, words, said):
    result = run("--out", str(tmp_path / "out"), *words)
    assert result.exit_code == 1 and said in " ".join(result.output.split())


def test_plots_are_drawn_where_matplotlib_is(measured):
    pytest.importorskip("matplotlib")
    for name in ("step_ms", "throughput", "acceptance"):
        assert (measured / f"{name}.png").stat().st_size > 5000
    assert json.loads((measured / "sps.json").read_text())["version"] == 1
