"""A DSPINE_STATE that cannot be used, in one sentence."""

from __future__ import annotations

import errno
import os

import pytest

from sglang_dspine.serve.failure import ServeError
from sglang_dspine.serve.state import require_usable, using


def test_a_folder_that_is_not_there_yet_is_usable_and_is_not_made(tmp_path):
    require_usable(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())


def test_a_file_and_a_folder_of_the_kernel_are_named_with_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (str(tmp_path / "file"), str(tmp_path / "file" / "below"), "/proc/x"):
        with pytest.raises(ServeError, match=f"^DSPINE_STATE={place}, .* name a folder that you can write to"):
            require_usable(type(tmp_path)(place))


def test_a_full_disk_is_named_as_such(tmp_path):
    with pytest.raises(ServeError, match="No space left on device; free some room there"), using(tmp_path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("action", ["--native", "--status", "--stop", "--logs"])
def test_every_use_of_a_bad_state_folder_is_one_line(shell, action):
    file = shell.root / "file"
    file.write_text("")
    done = shell.run(action, DSPINE_STATE=str(file))
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and f"DSPINE_STATE={file}" in done.stderr
    assert not (shell.root / "dspine.json").exists()


def test_a_start_that_could_not_write_its_state_is_refused_before_the_preflight(shell):
    done = shell.run("--native", DSPINE_STATE="/proc/x")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "DSPINE_STATE=/proc/x" in done.stderr
    assert "memory budget" not in done.stdout
    dry = shell.run("--native", "--dry-run", DSPINE_STATE="/proc/x")
    assert dry.returncode == 1 and dry.stderr == done.stderr
