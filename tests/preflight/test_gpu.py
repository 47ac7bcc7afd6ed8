"""Driver and memory."""

from __future__ import annotations

import pytest

from sglang_dspine.preflight.gpu import check_driver, find_memory, host_memory

MEMINFO = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n"


@pytest.fixture
def smi(tmp_path, monkeypatch):
    def install(answer: str) -> None:
        tool = tmp_path / "nvidia-smi"
        tool.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\necho "{answer}"\n')
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return install


def test_the_hosts_available_memory_counts_and_not_its_free_memory(tmp_path):
    (tmp_path / "meminfo").write_text(MEMINFO)
    found = host_memory(tmp_path / "meminfo")
    assert (found.total, found.free, found.unified) == (1000 << 10, 600 << 10, True)


def test_a_card_with_memory_of_its_own_reports_it(smi, monkeypatch, tmp_path):
    smi("580.159.03, 143771, 143000")
    memory, driver = find_memory((9, 0))
    assert (memory.total, memory.free, memory.unified) == (143771 << 20, 143000 << 20, False)
    assert driver == "580.159.03"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    find_memory((9, 0))
    assert (tmp_path / "asked").read_text().split()[-2:] == ["-i", "2"]


def test_a_gb10_has_no_memory_of_its_own(smi):
    smi("580.95.05, [N/A], [N/A]")
    memory, driver = find_memory((12, 1))
    assert memory.unified and memory.total == host_memory().total and driver == "580.95.05"


@pytest.mark.parametrize(
    ("driver", "level"), [("580.95.05", "ok"), ("610.1", "ok"), ("570.86", "fail"), (None, "warn")]
)
def test_a_driver_older_than_cuda_13_is_refused(driver, level):
    found = check_driver(driver)
    assert found.level == level and (level == "ok" or found.todo)
