"""`convert` from the command line."""

import pytest
from typer.testing import CliRunner

from sglang_dspine.checkpoint import Layout, examine
from sglang_dspine.cli.main import app
from tests.support.checkpoints import write_checkpoint


def run(*arguments):
    result = CliRunner().invoke(app, ["convert", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize(("format", "layout"), [("fp8", Layout.FP8), ("bf16", Layout.SPECFORGE)])
def test_the_format_asked_for_is_written(tmp_path, format, layout):
    write_checkpoint(tmp_path / "source", layout=Layout.REFERENCE)
    status, output = run(tmp_path / "source", tmp_path / "made", "--format", format)
    assert status == 0 and str(tmp_path / "made") in output
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


def test_a_format_is_asked_for(tmp_path):
    status, output = run(tmp_path, tmp_path / "made")
    assert status == 2 and "--format" in output
