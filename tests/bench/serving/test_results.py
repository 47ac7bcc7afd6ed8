"""Runs read back, and results of sglang.bench_serving."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sglang_dspine.bench.serving.results import read_run
from sglang_dspine.cli.main import app
from sglang_dspine.errors import DSpineError


def line(tag: str, throughput: float, length: float | None = None) -> dict:
    """The fields of `sglang.bench_serving --output-file` that are read."""
    return {
        "tag": tag, "max_concurrency": 8, "concurrency": 7.6, "duration": 10.0, "completed": 40,
        "total_input_tokens": 9000, "total_output_tokens": int(10 * throughput), "output_throughput": throughput,
        "mean_tpot_ms": 20.0, "median_ttft_ms": 50.0, "p90_ttft_ms": 60.0, "p99_ttft_ms": 90.0, "median_itl_ms": 11.0,
        "p90_itl_ms": 12.0, "p99_itl_ms": 30.0, "accept_length": length,
        "cache_report": {"total_cached_tokens": 4500},
    }  # fmt: skip


def write(path: Path, *lines: dict) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in lines))
    return path


def test_lines_of_bench_serving_become_repetitions_of_an_arm(tmp_path):
    run = read_run(write(tmp_path / "a.jsonl", line("dspine", 400, 3.5), line("dspine", 410, 3.6), line("plain", 100)))
    first, second = run.of("dspine", 8)
    assert run.arms == ["dspine", "plain"] and (first.repetition, second.repetition) == (0, 1)
    assert first.tok_s == 400 and first.user_tok_s == 50 and second.accepted_length == 3.6
    assert first.ttft_ms == {"50": 50.0, "90": 60.0, "99": 90.0} and first.cached_share == 0.5


def test_a_line_without_tag_is_named_after_its_file(tmp_path):
    assert read_run(write(tmp_path / "night.jsonl", line("x", 1) | {"tag": None})).arms == ["night"]


@pytest.mark.skipif(find_spec("sglang") is None, reason="SGLang is not installed")
def test_every_field_read_is_one_that_bench_serving_writes():
    spec = find_spec("sglang")
    source = Path(spec.origin).with_name("benchmark").joinpath("serving.py").read_text()
    assert [name for name in line("", 1) if f'"{name}"' not in source] == []


def test_another_file_is_refused_with_its_line(tmp_path):
    with pytest.raises(DSpineError, match=r"a\.jsonl:1: is no result of sglang\.bench_serving"):
        read_run(write(tmp_path / "a.jsonl", {"a": 1}))
    with pytest.raises(DSpineError, match="expected a folder"):
        read_run(tmp_path / "missing")


def compare(*words) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["bench-compare", *map(str, words)])
    return result.exit_code, result.output


def test_a_slowdown_between_two_imported_files_is_found(tmp_path):
    before = write(tmp_path / "a.jsonl", *(line("dspine", 400 + i, 3.5 + i / 100) for i in range(5)))
    after = write(tmp_path / "b.jsonl", *(line("dspine", 360 + i, 3.15 + i / 100) for i in range(5)))
    status, said = compare(before, after, "--fail", "--out", tmp_path / "c.md")
    assert status == 1 and "slower" in said and "accepts less" in said and "not known from these files" in said
    assert "slower" in (tmp_path / "c.md").read_text()
    status, said = compare(before, before, "--fail")
    assert status == 0 and "slower" not in said


def test_equal_repetitions_of_another_length_are_shown_and_not_judged(tmp_path):
    before = write(tmp_path / "a.jsonl", *(line("dspine", 400 + i, 3.5) for i in range(3)))
    after = write(tmp_path / "b.jsonl", *(line("dspine", 401 + i, 3.0) for i in range(3)))
    _, said = compare(before, after)
    assert "x0.857 |" in said and "not quoted: repetitions are all alike" in said


def test_arms_of_one_file_are_compared_with_the_first(tmp_path):
    lines = [line(tag, speed + i) for i in range(4) for tag, speed in (("plain", 100), ("dspine", 300))]
    status, said = compare(write(tmp_path / "a.jsonl", *lines))
    assert status == 0 and "dspine over plain" in said and "faster" in said


def test_an_arm_that_is_not_there_ends_with_status_2(tmp_path):
    status, said = compare(write(tmp_path / "a.jsonl", line("x", 1)), "--arm", "y")
    assert status == 2 and "has x" in said
