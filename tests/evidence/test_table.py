"""Tables on disk."""

import pytest

from sglang_dspine.evidence.plot import Line, can_plot, draw
from sglang_dspine.evidence.table import markdown, read_csv, write_csv


def test_a_csv_keeps_rows_with_other_columns(tmp_path):
    write_csv(tmp_path / "a.csv", [{"a": 1, "b": 2.5}, {"a": None, "c": "x,y"}])
    rows = read_csv(tmp_path / "a.csv")
    assert rows == [{"a": "1", "b": "2.5", "c": ""}, {"a": "", "b": "", "c": "x,y"}]


def test_a_markdown_cell_cannot_break_its_row():
    assert markdown(["a", "b"], [["x|y", None]]).splitlines()[-1] == "| x\\|y | - |"


@pytest.mark.skipif(not can_plot(), reason="matplotlib is an extra")
def test_a_plot_is_a_png(tmp_path):
    draw(tmp_path / "a.png", {"arm": Line([1, 2], [3, 4], [2, 3], [4, 5])}, title="t", x="users", y="tok/s")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
