"""The whole benchmark on the demo pair: real SGLang servers, started, loaded, compared and stopped."""

import pytest
from typer.testing import CliRunner

from demo.plan import CPU_POOLS
from sglang_dspine.bench.serving.results import read_run
from sglang_dspine.cli.main import app

from ...support.pairs import DEMO
from ...support.process import GPU

pytestmark = [pytest.mark.full, pytest.mark.skipif(GPU, reason="small sizes, for the CPU"), pytest.mark.timeout(1500)]
POOLS = [word for flag in CPU_POOLS for word in flag.words]


def test_the_drafter_is_measured_beside_plain_decode(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    out = tmp_path / "out"
    words = ["bench", str(out), "--target", str(DEMO / "target"), "--arm", "plain"]
    words += ["--arm", f"dspine DSPINE={DEMO / 'draft'}", "--users", "1,2", "-n", "2", "--conversations", "2"]
    words += ["--depth", "2", "--characters", "160", "--new-tokens", "24", "--ignore-eos", "--", *POOLS]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    run = read_run(out)
    assert len(run.cells) == 8 and not any(cell.failed for cell in run.cells)
    for cell in run.cells:
        assert cell.completion_tokens == 4 * 24 and cell.tok_s > 0 and cell.ttft_ms["50"] > 0
        assert cell.cached_share > 0.3  # the shared system prompt, and each turn's predecessor
        assert (cell.accepted_length is None) == (cell.arm == "plain")
    assert all(cell.accepted_length > 1.5 for cell in run.of("dspine", 1))
    assert all(
        sum(cell.accepted) == sum(rounds for _, rounds in cell.rounds_of.values()) for cell in run.of("dspine", 2)
    )
    report = (out / "report.md").read_text()
    assert "## dspine over plain" in report and "--speculative-algorithm DSPINE" in report
    compared = CliRunner().invoke(app, ["bench-compare", str(out), str(out), "--fail"])
    assert compared.exit_code == 0 and "x1.000" in compared.output
