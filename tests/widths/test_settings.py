"""Environment variables about widths are read or refused."""

from __future__ import annotations

import pytest

from sglang_dspine.errors import FlagError
from sglang_dspine.widths.settings import WidthSettings


def test_the_table_decides_unless_told_otherwise():
    assert WidthSettings.read({}) == WidthSettings("table", False, ())
    told = WidthSettings.read({"DSPINE_WIDTH_POLICY": "adaptive", "DSPINE_WIDTHS": "16, 1,8,8"})
    assert told == WidthSettings("adaptive", True, (1, 8, 16))


@pytest.mark.parametrize(
    ("name", "value"), [("DSPINE_WIDTH_POLICY", "best"), ("DSPINE_WIDTHS", "8,x"), ("DSPINE_WIDTHS", "0")]
)
def test_a_word_that_means_nothing_is_refused_with_what_would(name, value):
    with pytest.raises(FlagError, match="expected"):
        WidthSettings.read({name: value})


def test_a_server_reads_its_own_environment(monkeypatch):
    monkeypatch.setenv("DSPINE_WIDTH_POLICY", "fixed")
    monkeypatch.setenv("DSPINE_WIDTHS", "4")
    assert WidthSettings.read() == WidthSettings("fixed", True, (4,))
