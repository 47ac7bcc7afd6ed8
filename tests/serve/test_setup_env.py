"""scripts/setup-env.sh, as far as it touches what is already there."""

from __future__ import annotations

import os
import subprocess

from .conftest import ROOT


def test_an_environment_of_someone_else_is_never_replaced(tmp_path):
    venv = tmp_path / "theirs"
    venv.mkdir()
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\n")
    script, environment = str(ROOT / "scripts" / "setup-env.sh"), os.environ | {"DSPINE_VENV": str(venv)}
    done = subprocess.run([script], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "was not made by this script" in done.stderr
    assert (venv / "pyvenv.cfg").exists()
