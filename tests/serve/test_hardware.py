"""nvidia-smi's answer."""

from __future__ import annotations

import pytest

from sglang_dspine.serve.failure import ServeError
from sglang_dspine.serve.hardware import Gpu, find_gpu, parse_gpu


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Put an nvidia-smi on PATH that prints its arguments to a file and answers with a text."""

    def install(answer: str, status: int = 0):
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nprintf "{answer}"\nexit {status}\n')
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return install


def test_name_and_capability_are_read():
    assert parse_gpu("12.1, NVIDIA GB10") == Gpu("NVIDIA GB10", (12, 1))
    assert str(parse_gpu("9.0, NVIDIA H200")) == "NVIDIA H200 (sm_90)"


def test_an_answer_of_another_form_is_shown():
    with pytest.raises(ServeError, match="Field unknown"):
        parse_gpu("Field unknown")


def test_the_first_visible_gpu_counts(smi, monkeypatch, tmp_path):
    smi("9.0, NVIDIA H200\\n8.9, NVIDIA L40S\\n")
    assert find_gpu() == Gpu("NVIDIA H200", (9, 0))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    find_gpu()
    assert (tmp_path / "asked").read_text().split()[-2:] == ["-i", "3"]


def test_hidden_gpus_and_a_driver_that_finds_none_are_no_gpu(smi, monkeypatch):
    smi("No devices were found", status=6)
    assert find_gpu() is None
    smi("9.0, NVIDIA H200")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert find_gpu() is None
