"""GPU to backends (report 28), caches."""

from __future__ import annotations

import pytest

from sglang_dspine.doctor import machine
from sglang_dspine.doctor.machine import look_at_machine
from sglang_dspine.serve.hardware import Gpu

CARDS = {
    (9, 0): "fa3",
    (12, 1): "fa4",
    (12, 0): "fa4",
    (10, 0): "fa4",
    (8, 9): "triton",
    (7, 5): "triton",
    (13, 0): "triton",
}


def backends(capability, present=True):
    monkey = pytest.MonkeyPatch()
    monkey.setattr(machine, "_present", lambda module: present)
    try:
        return next(f for f in look_at_machine(Gpu("a card", capability)) if f.what == "backends")
    finally:
        monkey.undo()


@pytest.mark.report(28)
@pytest.mark.parametrize(("capability", "backend"), CARDS.items())
def test_each_capability_has_a_backend_with_its_reason(capability, backend):
    found = backends(capability)
    assert found.level == "ok" and f"draft attention {backend} (" in found.found
    assert f"sm_{capability[0]}" in found.found


@pytest.mark.report(28)
@pytest.mark.parametrize("capability", CARDS)
def test_a_backend_whose_kernels_are_not_installed_fails_and_names_another(capability):
    found = backends(capability, present=False)
    assert found.level == "fail" and "--speculative-draft-attention-backend triton" in found.todo


@pytest.mark.report(28)
def test_serve_sh_passes_what_the_table_says():
    from sglang_dspine.algorithm.backends import draft_attention_backend
    from sglang_dspine.serve.profile import choose_profile

    for capability, backend in CARDS.items():
        flags = {flag.name: flag for flag in choose_profile(Gpu("a card", capability), True).flags}
        assert flags["--speculative-draft-attention-backend"].value == backend
        assert draft_attention_backend(capability).backend == backend


@pytest.mark.report(28)
def test_sglang_knows_every_backend_of_the_table():
    from sglang_dspine.compat.check import sglang_root

    choices = (sglang_root() / "sglang/srt/arg_groups/choices.py").read_text()
    draft = choices.partition("DRAFT_ATTENTION_BACKEND_CHOICES = [")[2].partition("]")[0]
    assert all(f'"{backend}"' in draft for backend in CARDS.values())


def test_a_cache_that_cannot_be_written_fails(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "not" / "there"))
    assert next(f for f in look_at_machine(None) if f.what == "caches").level in ("ok", "warn")
    monkeypatch.setattr(machine.os, "access", lambda path, mode: False)
    found = next(f for f in look_at_machine(None) if f.what == "caches")
    assert found.level == "fail" and "compiles again" in found.todo


def test_a_machine_without_a_compiler_is_warned(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    assert any(f.what == "compiler" and f.level == "warn" for f in look_at_machine(Gpu("a card", (9, 0))))
