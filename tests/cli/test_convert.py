"""`convert` from the command line."""

import json

import pytest
from typer.testing import CliRunner

from sglang_dspine.agreement.captures import save_captures, synthetic
from sglang_dspine.checkpoint import Layout, examine
from sglang_dspine.cli.main import app
from tests.support.checkpoints import TINY, write_checkpoint
from tests.support.models import dense_qwen3, dspine_drafter


def run(*arguments):
    result = CliRunner().invoke(app, ["convert", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize(("format", "layout"), [("fp8", Layout.FP8), ("bf16", Layout.SPECFORGE)])
def test_the_format_asked_for_is_written(tmp_path, format, layout):
    write_checkpoint(tmp_path / "source", layout=Layout.REFERENCE)
    status, output = run(tmp_path / "source", tmp_path / "made", "--format", format)
    assert status == 0 and str(tmp_path / "made") in output and "candidates of a row that both have" in output
    assert {"conversion.json", "conversion.md"} <= {path.name for path in (tmp_path / "made").iterdir()}
    assert examine(tmp_path / "made").layout is layout and examine(tmp_path / "made").problems == []


def test_errors_end_in_one_sentence_and_status_1(tmp_path):
    write_checkpoint(tmp_path / "source")
    for source, destination, said in [
        (tmp_path / "source", tmp_path / "source", "never overwritten"),
        (tmp_path / "nothing", tmp_path / "made", "is no folder"),
    ]:
        status, output = run(source, destination, "--format", "fp8")
        assert status == 1 and said in output and "Traceback" not in output


def test_the_remains_of_a_killed_run_are_named(tmp_path):
    write_checkpoint(tmp_path / "source")
    (tmp_path / ".made.abc.partial").mkdir()
    status, output = run(tmp_path / "source", tmp_path / "made", "--format", "fp8")
    assert status == 0 and ".made.abc.partial was left by a conversion that was killed" in output


def test_agreement_is_measured_on_the_text_of_a_target_that_is_named(tmp_path):
    target = dense_qwen3()
    (tmp_path / "prompts.txt").write_text("one\ntwo\n")
    given = ["--format", "fp8", "--target", target, "--prompts", tmp_path / "prompts.txt"]
    status, output = run(dspine_drafter(), tmp_path / "made", *given)
    assert status == 0 and "accepted length, bonus included" in output and "of 2 texts" in output
    found = json.loads((tmp_path / "made" / "conversion.json").read_text())["agreement"]
    assert 1 <= found["acceptance"]["before"] <= 8 and found["acceptance"]["low"] <= found["acceptance"]["ratio"]


def test_captures_are_taken_from_a_file_and_not_beside_a_target(tmp_path):
    write_checkpoint(tmp_path / "source")
    save_captures(tmp_path / "captures", synthetic(TINY))
    given = [tmp_path / "source", tmp_path / "made", "--format", "fp8", "--captures", tmp_path / "captures"]
    status, output = run(*given, "--target", "some")
    assert status == 1 and "pass one" in output and not (tmp_path / "made").exists()
    status, output = run(*given)
    assert status == 0 and "measured on captures" in output


def test_agreement_can_be_left_out(tmp_path):
    write_checkpoint(tmp_path / "source")
    status, output = run(tmp_path / "source", tmp_path / "made", "--format", "bf16", "--no-agreement")
    assert status == 0 and "not measured" in output


def test_a_format_is_asked_for(tmp_path):
    status, output = run(tmp_path, tmp_path / "made")
    assert status == 2 and "--format" in output


def test_what_was_converted_can_be_converted_again(tmp_path):
    """The first report travels with no second conversion, whose manifest would then list another file's bytes."""
    write_checkpoint(tmp_path / "source", TINY)
    for source, made, form in (("source", "a", "fp8"), ("a", "b", "bf16"), ("b", "c", "fp8")):
        done = CliRunner().invoke(app, ["convert", str(tmp_path / source), str(tmp_path / made), "--format", form])
        assert done.exit_code == 0, done.output
        seen = CliRunner().invoke(app, ["inspect", str(tmp_path / made)])
        assert seen.exit_code == 0, seen.output
    assert (tmp_path / "c" / "conversion.md").exists()
