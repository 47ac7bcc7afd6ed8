"""`together` itself, with commands that need no GPU."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from . import together


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """tests.gpu.NAME becomes `python -c SOURCE`."""

    def use(**sources: str) -> list[str]:
        popen = subprocess.Popen

        def run(words, **options):
            name = words[2].removeprefix("tests.gpu.")
            return popen([sys.executable, "-c", sources[name], *words[3:]], **options)

        monkeypatch.setattr(together.subprocess, "Popen", run)
        return list(sources)

    return use


def test_results_of_all_are_collected_and_a_failure_shows(tmp_path, capsys, commands):
    good = "import sys, pathlib; pathlib.Path(sys.argv[1], 'found.json').write_text('{}')"
    names = commands(good=good, bad="print('no such kernel'); raise SystemExit(3)")
    assert together.main(tmp_path, 60, names) == 1
    assert (tmp_path / "good.found.json").read_text() == "{}"
    printed = capsys.readouterr().out
    assert "good: exit status 0" in printed and "bad: exit status 3" in printed and "no such kernel" in printed


def test_what_runs_too_long_is_stopped_with_the_servers_it_left(tmp_path, commands):
    server = "import time; time.sleep(300)"
    source = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {server!r}], start_new_session=True)"
    names = commands(leaves=source + "; import time; time.sleep(300)")
    begin = time.monotonic()
    assert together.main(tmp_path, 3, names) == 1
    assert time.monotonic() - begin < 60 and together.members("leaves") == []
