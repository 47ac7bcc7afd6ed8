"""Kernels that compile, or do not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sglang_dspine.doctor.kernels import look_at_kernels
from sglang_dspine.kernels import report
from sglang_dspine.serve.hardware import Gpu

GOOD = report.Usage(64, 0, 1024, 0.1)
H200 = Gpu("NVIDIA H200", (9, 0))


@pytest.fixture
def compiled(monkeypatch):
    """Compiles nothing: notes for what it was asked, and answers with a usage or an error."""
    asked = []

    def install(answer=GOOD):
        def usage(launch, capability):
            asked.append((launch.name, capability))
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(report, "usage", usage)
        monkeypatch.setattr(report, "cases", lambda quick: [("8 x 8", SimpleNamespace(name="walk"))])
        return asked

    return install


def test_a_gpus_own_capability_is_compiled_for_and_without_one_all_that_are_known(compiled):
    asked = compiled()
    assert look_at_kernels(H200).level == "ok" and asked == [("walk", 90)]
    asked.clear()
    assert look_at_kernels(None).level == "ok" and asked == [("walk", 90), ("walk", 121)]


def test_a_compiler_that_fails_names_the_kernel_and_the_switch(compiled):
    compiled(RuntimeError("ptxas died"))
    found = look_at_kernels(H200)
    assert found.level == "fail" and "walk does not compile for sm_90: ptxas died" in found.found
    assert "DSPINE_KERNELS=0" in found.todo


def test_a_kernel_that_spills_and_a_card_that_is_unknown_are_warned_of(compiled):
    compiled(report.Usage(255, 128, 1024, 0.1))
    assert look_at_kernels(H200).level == "warn"
    assert "sm_89" in look_at_kernels(Gpu("NVIDIA L40S", (8, 9))).found


def test_the_switch_that_is_named_is_the_one_that_is_read():
    from sglang_dspine.doctor.kernels import OFF
    from sglang_dspine.kernels.switch import SWITCH

    assert f"{SWITCH}=0" in OFF


@pytest.mark.full
def test_ours_compile_for_hopper():
    assert look_at_kernels(H200).level == "ok"
