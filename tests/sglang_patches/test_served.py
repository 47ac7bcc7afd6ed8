"""SGLang's DFLASH with ReplaySSM on a Gated DeltaNet target: refused as published, right by hooks and by patches."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..support import process
from ..support.replay import SHORT
from . import served
from .overlay import PATCHES, ROOT, apply, copied, environment, installed_hooks

pytestmark = [pytest.mark.full, pytest.mark.report(2)]
HERE = Path(__file__).parent


def test_sglang_as_published_refuses(engines):
    with pytest.raises(ValueError, match="requires a KDA model"):
        served.served(engines, SHORT)
    assert not process.CHANNELS, "a start that failed leaves its sockets to the next one"


def test_with_the_hooks_the_text_is_the_targets(engines):
    engines.close()  # none that was built without them
    with installed_hooks(), served.plain_fold():
        served.check(engines)
        for name in served.ELSEWHERE:
            served.check_elsewhere(engines, name)
        engines.close()


@pytest.fixture(scope="module")
def patched(tmp_path_factory):
    folder = copied(tmp_path_factory.mktemp("patched"), whole=True)
    for patch in PATCHES:
        assert apply(patch, folder).returncode == 0
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("file", ["patched_engine.py", "patched_fold.py"])
def test_with_the_patches(patched, file):
    env = environment(patched) | ({"TRITON_INTERPRET": "1"} if "fold" in file else {})
    command = [sys.executable, "-m", "pytest", str(HERE / file), "-m", "", "-p", "no:cacheprovider", "-W", "ignore"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
