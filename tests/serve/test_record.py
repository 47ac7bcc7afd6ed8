"""Who serves on a port."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sglang_dspine.serve.failure import ServeError
from sglang_dspine.serve.port import free_port, require_free
from sglang_dspine.serve.record import Record, birth, find_record, record_path, recorded, stop_recorded


def test_the_record_lasts_as_long_as_the_endpoint(tmp_path):
    with recorded(tmp_path, 81, "http://h:81", "a model"):
        found = find_record(tmp_path, 81)
        assert found is not None and found.pid == os.getpid() and found.alive
    assert find_record(tmp_path, 81) is None


def test_a_record_whose_process_is_gone_or_another_is_removed(tmp_path):
    with recorded(tmp_path, 81, "u", "m"):
        path = record_path(tmp_path, 81)
        path.write_text(path.read_text().replace(birth(os.getpid()) or "", "1"))
        assert find_record(tmp_path, 81) is None and not path.exists()


def test_a_damaged_record_is_named(tmp_path):
    record_path(tmp_path, 81).write_text("{")
    with pytest.raises(ServeError, match="delete it"):
        find_record(tmp_path, 81)


def test_an_empty_record_is_dropped_and_named(tmp_path, capsys):
    path = record_path(tmp_path, 81)
    path.touch()
    assert find_record(tmp_path, 81) is None and not path.exists()
    assert str(path) in capsys.readouterr().err


def test_a_start_on_a_full_disk_leaves_the_folder_as_it_was(tmp_path, monkeypatch):
    def full(path: Path, text: str) -> int:
        path.open("w").close()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = record_path(tmp_path, 81)
    before.write_text("before")
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(ServeError, match="No space left on device; free some room"), recorded(tmp_path, 81, "u", "m"):
        pass
    assert list(tmp_path.iterdir()) == [before] and before.read_text() == "before"


def test_stopping_waits_until_the_process_is_gone():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    record = Record(process.pid, birth(process.pid) or "", "u", "m", "l")
    stop_recorded(record)
    assert not record.alive and process.wait(5) < 0


def test_a_busy_port_is_refused_and_says_whose_it_is(tmp_path):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(ServeError, match=f"127.0.0.1 port {port} cannot be used: Address already in use"):
            require_free("127.0.0.1", port, tmp_path)
        with recorded(tmp_path, port, "http://u", "a model"), pytest.raises(ServeError, match="a model is served at"):
            require_free("127.0.0.1", port, tmp_path)
    require_free("127.0.0.1", free_port(), tmp_path)


def test_a_host_that_is_not_ours_is_refused(tmp_path):
    with pytest.raises(ServeError, match=r"set HOST= or PORT="):
        require_free("192.0.2.1", 8081, tmp_path)
