"""The list of planted faults."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from sglang_dspine.errors import DSpineError
from sglang_dspine.exactness import faults


def test_every_fault_of_the_protocol_is_listed_with_a_level_that_must_catch_it():
    assert set(faults.FAULTS) == {
        "state-one-early",
        "state-one-late",
        "block-not-causal",
        "anchor-masked",
        "taps-off-by-one",
        "positions-off-by-one",
        "q-of-another-temperature",
        "q-swapped",
        "bonus-of-wrong-row",
        "rejected-draft-kv-kept",
    }
    assert all(fault.caught_by for fault in faults.FAULTS.values())


def test_a_registered_injector_plants_its_fault(monkeypatch):
    monkeypatch.setattr(faults, "_injectors", {})
    held = []

    @faults.injector("anchor-masked")
    @contextmanager
    def plant(where):
        held.append(where)
        yield
        held.pop()

    with faults.planted("anchor-masked", "row 0"):
        assert held == ["row 0"]
    assert held == []
    assert "anchor-masked" not in faults.without_injector()


def test_planting_what_nobody_can_plant_is_an_error(monkeypatch):
    monkeypatch.setattr(faults, "_injectors", {})
    with pytest.raises(DSpineError, match="no injector"):
        faults.planted("anchor-masked")
    with pytest.raises(DSpineError, match="unknown fault"):
        faults.planted("anchor")
    with pytest.raises(DSpineError, match="unknown fault"):
        faults.injector("anchor")
    assert faults.without_injector() == set(faults.FAULTS)
