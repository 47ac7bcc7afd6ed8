"""A manifest names the file that is not what was written."""

import pytest

from sglang_dspine.checkpoint import examine
from sglang_dspine.checkpoint.convert import Format, convert, plan_conversion
from sglang_dspine.checkpoint.manifest import MANIFEST, check_manifest
from tests.support.checkpoints import change_a_bit, write_checkpoint


@pytest.fixture
def converted(tmp_path):
    write_checkpoint(tmp_path / "source")
    convert(plan_conversion(tmp_path / "source", tmp_path / "made", Format.FP8))
    return tmp_path / "made"


def test_a_fresh_conversion_agrees_with_its_manifest(converted):
    assert check_manifest(converted) == [] and examine(converted).problems == []


def test_one_changed_bit_is_found(converted):
    change_a_bit(converted / "model.safetensors")
    assert [problem.what for problem in check_manifest(converted)] == [f"is not the file that {MANIFEST} lists"]
    assert any("model.safetensors" in str(problem) for problem in examine(converted).problems)


def test_an_edited_config_and_a_missing_file_are_found(converted):
    (converted / "config.json").write_text((converted / "config.json").read_text() + " ")
    (converted / "model.safetensors").unlink()
    first, second = check_manifest(converted)
    assert first.where.endswith("config.json") and second.where.endswith("model.safetensors")


@pytest.mark.parametrize("text", ["", "[]", '{"files": 3}', '{"files": {"a": {}}}', '{"files": {"a": {"bytes": "x"}}}'])
def test_a_broken_manifest_is_a_problem_and_no_crash(converted, text):
    (converted / MANIFEST).write_text(text)
    assert "is no manifest" in str(check_manifest(converted)[0])


def test_a_folder_without_a_manifest_has_nothing_to_check(tmp_path):
    assert check_manifest(tmp_path) == []
