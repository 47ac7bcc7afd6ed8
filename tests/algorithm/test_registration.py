"""Registration: light, repeatable, and never silent when it fails."""

from __future__ import annotations

import subprocess
import sys

LOAD = "from sglang.srt.plugins import load_plugins; load_plugins()\n"
ASK = """
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
algorithm = SpeculativeAlgorithm.from_string("dspine")
print(type(algorithm).__name__, algorithm.name, algorithm.is_dflash_family(), algorithm.is_dspark())
"""


def run(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=240)


def test_the_name_is_known_once_sglang_has_loaded_its_plugins():
    done = run(LOAD + ASK)
    assert "DSpineSpecAlgo DSPINE True False" in done.stdout, done.stderr


def test_the_entry_point_imports_nothing_heavy_and_registers_twice_without_harm():
    done = run(
        "import sys\nfrom sglang_dspine.plugin import register\nbefore = set(sys.modules)\n"
        "heavy = ('torch', 'triton', 'transformers', 'flashinfer', 'sglang')\n"
        "print('at import', [m for m in heavy if m in before])\n"
        "register(); register()\n"
        "late = ('flashinfer', 'sglang.srt.models', 'sglang.srt.managers.scheduler', 'sglang_dspine.worker.round',\n"
        "        'sglang.srt.speculative.dflash_worker_v2', 'sglang_dspine.model.dspine')\n"
        "print('after', [m for m in late if m in sys.modules])" + ASK
    )
    assert "at import []" in done.stdout and "after []" in done.stdout, done.stdout + done.stderr[-2000:]
    assert "DSpineSpecAlgo DSPINE" in done.stdout


def test_a_failed_registration_says_why_at_once_and_again_when_the_flag_is_used():
    done = run(
        "from sglang_dspine.compat import check\n"
        "check.check_version = lambda: 'SGLang 9.9 found, 0.5.23 expected'\n"
        "from sglang_dspine.plugin import register\nregister()\n"
        "from sglang.srt.speculative.spec_info import SpeculativeAlgorithm\n"
        "algorithm = SpeculativeAlgorithm.from_string('DSPINE')\n"
        "try:\n    algorithm.validate_server_args(None)\n"
        "except RuntimeError as error:\n    print('flag says:', error)\n"
    )
    assert "DSPINE could not be registered: SGLang 9.9 found" in done.stderr
    assert "flag says: DSPINE could not be registered: SGLang 9.9 found" in done.stdout


def test_tokenizer_workers_are_given_an_app_that_loads_plugins():
    done = run(
        LOAD + "import uvicorn\nfrom sglang_dspine.algorithm.tokenizer_workers import OUR_APP, SGLANG_APP\n"
        "config = uvicorn.Config(SGLANG_APP, workers=2)\nprint(config.app == OUR_APP, uvicorn.Config('x:app').app)"
    )
    assert "True x:app" in done.stdout, done.stderr[-2000:]
