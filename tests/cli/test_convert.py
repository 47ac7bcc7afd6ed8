"""`convert` from the command line."""

import json
import os
import signal

import pytest
from typer.testing import CliRunner

from sglang_dspine.agreement import basis as basis_module
from sglang_dspine.agreement import measure as measure_module
from sglang_dspine.agreement import report as report_module
from sglang_dspine.agreement.captures import save_captures, synthetic
from sglang_dspine.checkpoint import Layout, examine
from sglang_dspine.cli.main import app
from sglang_dspine.errors import DSpineError
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
    assert "Loading weights" not in output and "Setting `" not in output and "fallback" not in output
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--prompts", "PROMPTS"], "--prompts says how a target writes; pass --target with it"),
        (["--device", "cpu"], "--device says how a target writes; pass --target with it"),
        (["--no-agreement", "--target", "TARGET"], "then nothing is measured"),
        (["--captures", "PROMPTS"], "is no file of captures"),
        (["--target", "/no/such"], "/no/such: is no folder; expected the folder of a target, or a repository id"),
        (["--target", "TARGET", "--prompts", "/no/such"], "expected a text file with one prompt a line"),
        (["--target", "TARGET", "--device", "bogus"], "--device bogus: this PyTorch cannot use it"),
        (["--target", "DRAFT"], "num_target_layers differs from the target's"),
    ],
)
def test_what_to_measure_on_is_checked_before_anything_is_written(tmp_path, options, said):
    (tmp_path / "prompts").write_text("one\n")
    places = {"PROMPTS": str(tmp_path / "prompts"), "TARGET": dense_qwen3(), "DRAFT": dspine_drafter()}
    status, output = run(
        dspine_drafter(), tmp_path / "made", "--format", "fp8", *(places.get(option, option) for option in options)
    )
    assert status == 1 and said in output
    assert [path.name for path in tmp_path.iterdir()] == ["prompts"]


def test_a_target_that_fails_while_it_writes_costs_no_conversion(tmp_path, monkeypatch):
    monkeypatch.setattr(basis_module, "record", out_of_memory)
    status, output = run(dspine_drafter(), tmp_path / "made", "--format", "fp8", "--target", dense_qwen3())
    assert status == 1 and "out of memory" in output and list(tmp_path.iterdir()) == []


def out_of_memory(*_, **__):
    raise DSpineError("out of memory")


def test_an_interrupt_while_the_change_is_measured_leaves_nothing(tmp_path, monkeypatch):
    write_checkpoint(tmp_path / "source")
    monkeypatch.setattr(measure_module, "measure", interrupt)
    result = CliRunner().invoke(app, ["convert", str(tmp_path / "source"), str(tmp_path / "made"), "--format", "fp8"])
    assert result.exit_code == 130 and [path.name for path in tmp_path.iterdir()] == ["source"]


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_it_leaves_nothing(tmp_path, monkeypatch, number):
    write_checkpoint(tmp_path / "source")
    monkeypatch.setattr(measure_module, "measure", lambda *_: os.kill(os.getpid(), number))
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        status, _ = run(tmp_path / "source", tmp_path / "made", "--format", "fp8")
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
    assert status == 128 + number and [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_report_that_cannot_be_printed_is_no_failed_conversion(tmp_path, monkeypatch):
    write_checkpoint(tmp_path / "source")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report_module, "show", full)
    status, output = run(tmp_path / "source", tmp_path / "made", "--format", "fp8")
    assert status == 1 and "made is complete, but its report could not be printed" in output
    assert examine(tmp_path / "made").problems == [] and (tmp_path / "made" / "conversion.md").is_file()


def test_a_log_gets_a_line_a_phase(tmp_path):
    write_checkpoint(tmp_path / "source")
    _, output = run(tmp_path / "source", tmp_path / "made", "--format", "fp8")
    assert "converting ...\n" in output and "drafting with both ...\n" in output


def test_agreement_can_be_left_out(tmp_path):
    write_checkpoint(tmp_path / "source")
    status, output = run(tmp_path / "source", tmp_path / "made", "--format", "bf16", "--no-agreement")
    assert status == 0 and "not measured" in output


@pytest.mark.parametrize(("layout", "noted"), [(Layout.FP8, True), (Layout.SPECFORGE, False)])
def test_a_source_that_is_already_what_is_asked_for_is_noted(tmp_path, layout, noted):
    write_checkpoint(tmp_path / "source", layout=layout)
    status, output = run(tmp_path / "source", tmp_path / "made", "--format", "fp8", "--no-agreement")
    assert status == 0 and ("is in that layout already" in output) is noted


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
