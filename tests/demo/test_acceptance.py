"""The demo pair's acceptance, whole tool, small size."""

import csv

import pytest
import torch

from demo import acceptance
from demo.dflash import FlashDrafter, save_flash
from demo.text import stdlib_path

pytestmark = pytest.mark.full


def test_every_comparison_comes_from_the_same_anchors(tmp_path, monkeypatch, capsys):
    library = tmp_path / "library"
    library.mkdir()
    for name in ("csv.py", "shelve.py", "argparse.py"):  # two held out
        (library / name).write_bytes((stdlib_path() / name).read_bytes())
    torch.manual_seed(0)
    save_flash(FlashDrafter(), tmp_path / "dflash", 8192)
    words = "--prompts 3 --tokens 40 --anchors 8 --length 300 --device cpu"
    words += f" --stdlib {library} --dflash {tmp_path / 'dflash'}"
    monkeypatch.setattr("sys.argv", ["acceptance", str(tmp_path / "out"), *words.split()])
    acceptance.main()
    rows = list(csv.DictReader((tmp_path / "out" / "demo-acceptance.csv").open()))
    assert list(rows[0]) == ["comparison", "ratio", "low", "high", "sequences", "anchors"]
    found = {row["comparison"]: row for row in rows}
    assert len(found) == len(acceptance.PAIRS) * 2
    assert {row["sequences"] for row in rows if "(greedy)" in row["comparison"]} == {"3"}
    assert {row["anchors"] for row in rows if "(greedy)" in row["comparison"]} == {"24"}
    trained = found["DSpine / DFlash-style, 16 rows (greedy)"]  # the rival here is random
    assert float(trained["ratio"]) > 1.5
    assert float(found["bridge zeroed / full bridge (greedy)"]["ratio"]) < 1
