"""Level E4 as a command."""

import json

import pytest
from typer.testing import CliRunner

from sglang_dspine.cli.main import app
from sglang_dspine.exactness.filters import Sampling, target_law
from tests.exactness.stub_server import Stub, serving

pytestmark = pytest.mark.full  # the power is simulated, which takes ten seconds


def audit(tmp_path, stub: Stub) -> tuple[int, str]:
    """Exit status and findings of an audit far too small to pass."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("[3, 5]\n[7, 2]\n")
    with serving(stub) as url, serving(Stub()) as control:
        words = ["sampled-audit", "--url", url, "--control-url", control, "--prompts", str(prompts)]
        words += ["--setting", "temperature=1.0", "--requests", "300", "--length", "2", "--power-runs", "1"]
        result = CliRunner().invoke(app, [*words, "--json", str(tmp_path / "report.json")])
    return result.exit_code, " ".join(json.loads((tmp_path / "report.json").read_text())["findings"])


def test_the_targets_own_law_is_not_rejected_and_too_few_draws_are_no_pass(tmp_path):
    status, said = audit(tmp_path, Stub())
    assert "0 rejections" in said and "power at this size" in said and "fewer than 9000 requests" in said
    assert status == 1


def test_another_temperature_is_rejected(tmp_path):
    hot = Stub(law=lambda row, sampling: target_law(row, Sampling(temperature=2.5)))
    status, said = audit(tmp_path, hot)
    assert status == 1 and " 0 rejections" not in said
