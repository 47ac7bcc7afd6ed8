"""E3 against a server whose faults are known."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from sglang_dspine.cli.main import app
from sglang_dspine.exactness.audit import Arm, Token, audit, judge
from sglang_dspine.exactness.endpoint import Endpoint, EndpointError

from .stub_server import VOCAB, Stub, serving, target_row

PROMPTS = [[1, 2, 3], [4, 5], [6]]


def audit_stub(stub, control=None, **kwargs):
    with serving(stub) as url:
        if control is None:
            return audit(Endpoint(url), PROMPTS, max_new_tokens=8, **kwargs)
        with serving(control) as control_url:
            return audit(Endpoint(url), PROMPTS, max_new_tokens=8, control=[Endpoint(control_url)], **kwargs)


def test_exact_text_passes_without_a_control():
    report = audit_stub(Stub())
    assert report.passed
    assert report.lines[0] == "0 of 24 differ"


def test_a_wrong_token_fails_and_is_named():
    report = audit_stub(Stub(wrong_token_at=3))
    assert not report.passed
    assert report.lines[0] == "3 of 24 differ"
    _, position, token, top1, gap = report.tables[0].rows[0]
    assert position == 4
    assert token != top1
    assert gap == report.facts["largest_gap"] > 0


def test_a_wrong_token_fails_beside_a_noisy_control_too():
    report = audit_stub(Stub(wrong_token_at=3), control=Stub(decode_noise=0.3))
    assert not report.passed


def test_rounding_passes_within_the_controls_gap():
    """Both arms pick a runner-up now and then, as rounding makes them; the control's gap covers it."""
    alone = audit_stub(Stub(runner_up_at=5))
    assert not alone.passed
    report = audit_stub(Stub(runner_up_at=5), control=Stub(runner_up_at=5))
    assert report.passed
    assert report.lines[0] == "3 of 24 differ"
    assert report.lines[1].startswith("3 within the control's gap")


def test_every_row_is_rescored_under_a_salt_of_its_own():
    stub = Stub()
    audit_stub(stub)
    assert len(set(stub.salts)) == len(stub.salts) == len(PROMPTS)


def test_a_rescore_from_the_cache_is_refused():
    with pytest.raises(EndpointError, match="reused 2 cached tokens, expected 0"):
        audit_stub(Stub(cached=2))


def test_a_tie_is_a_top_1_and_a_row_without_a_number_is_not():
    tie, nan = Token(0, 1, 5, 5, 0.0), Token(0, 2, 6, 7, float("inf"))
    assert judge(Arm([tie], None), None, "").passed
    assert not judge(Arm([tie, nan], None), Arm([Token(0, 1, 1, 2, 9.0)], None), "").passed


def test_a_target_that_writes_one_token_for_everything_is_refused():
    with serving(Stub(law=lambda row, sampling: np.eye(VOCAB)[0])) as url:
        with pytest.raises(EndpointError, match="all 120 tokens are token 0"):
            audit(Endpoint(url), PROMPTS, max_new_tokens=40)
        assert not audit(Endpoint(url), PROMPTS[:1], max_new_tokens=40).passed


def test_the_last_id_of_the_vocabulary_is_scored():
    """SGLang labels it 0 in the answer, with the right logprob beside it."""
    with serving(Stub()) as url:
        score = Endpoint(url).score([3, 4, VOCAB - 1, 5], 2)
    assert score.logprobs[0] == pytest.approx(target_row([3, 4])[VOCAB - 1])


def test_a_server_that_speculates_says_how_much():
    assert audit_stub(Stub(blocks=(1, 3))).facts["accepted_length"] == 3.0
    assert "did this server speculate" in audit_stub(Stub()).lines[-1]


def run(*arguments):
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


@pytest.fixture
def prompt_file(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(json.dumps({"input_ids": ids}) for ids in PROMPTS))
    return path


def test_the_command_prints_the_count_and_writes_json(prompt_file, tmp_path):
    with serving(Stub()) as url:
        result = run("--url", url, "--prompts", prompt_file, "--max-new-tokens", 8, "--json", tmp_path / "out.json")
    assert result.exit_code == 0, result.output
    assert "0 of 24 differ" in result.output
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["level"] == "E3"
    assert written["passed"] is True
    assert written["facts"]["tokens"] == 24


def test_the_command_exits_1_on_a_planted_wrong_token(prompt_file):
    with serving(Stub(wrong_token_at=0)) as url, serving(Stub()) as control:
        result = run("--url", url, "--prompts", prompt_file, "--max-new-tokens", 4, "--control-url", control)
    assert result.exit_code == 1
    assert "3 of 12 differ" in result.output
    assert "3 beyond it" in result.output


def test_text_prompts_are_tokenized_by_the_server(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("hello\n\nworld\n")
    with serving(Stub()) as url:
        result = run("--url", url, "--prompts", path, "--max-new-tokens", 5)
    assert result.exit_code == 0
    assert "0 of 10 differ" in result.output


@pytest.mark.parametrize("status", [400, 500])
def test_a_refusing_server_exits_2_with_its_answer(prompt_file, status):
    with serving(Stub(status=status)) as url:
        result = run("--url", url, "--prompts", prompt_file)
    assert result.exit_code == 2
    assert f"status {status}" in result.output


def test_an_absent_server_exits_2_and_says_what_was_expected(prompt_file):
    result = run("--url", "http://127.0.0.1:9", "--prompts", prompt_file)
    assert result.exit_code == 2
    assert "expected a running SGLang server" in result.output


def test_a_missing_prompt_file_exits_2(tmp_path):
    result = run("--url", "http://127.0.0.1:9", "--prompts", tmp_path / "none.txt")
    assert result.exit_code == 2
    assert "one prompt a line" in result.output
