"""What a report says about arms whose figures are known."""

from sglang_dspine.bench.serving import report
from sglang_dspine.bench.serving.report import csv_row, render

from .test_verdict import one_run


def test_a_win_is_named_and_every_cell_shows_its_range():
    text = render(one_run(1, noise=0.004, speed=1.3))
    assert "## changed over base" in text and text.count("| faster |") == 6
    assert "] (5)" in text and " ~ |" not in text


def test_a_cell_that_scatters_is_marked_and_its_ratio_shown_without_a_win():
    text = render(one_run(2, noise=0.06, speed=1.5))
    assert "] (5) ~ |" in text and "not quoted: spread" in text and "| faster |" not in text and "x1." in text


def test_cells_run_once_are_marked():
    assert "(1) ~ |" in render(one_run(3, repetitions=1))


def test_failed_requests_have_a_table_of_their_own():
    from dataclasses import replace

    run = one_run(4, repetitions=2)
    broken = replace(run, cells=(replace(run.cells[0], failed=2, errors=("status 500",)), *run.cells[1:]))
    assert "## Failed requests" in render(broken) and "2 of 24" in render(broken) and "status 500" in render(broken)


def test_a_line_of_the_csv_holds_what_the_tables_show():
    row = csv_row(one_run(5).cells[0])
    assert {"arm", "users", "tok_s", "user_tok_s", "accepted_length", "failed", "seed"} <= set(row)


def test_without_matplotlib_the_report_says_so_and_is_whole_otherwise(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "can_plot", lambda: False)
    written = report.write_report(one_run(6), tmp_path)
    assert {path.name for path in written} == {"cells.csv", "report.md"}
    assert "pip install 'sglang-dspine[evidence]'" in (tmp_path / "report.md").read_text()
