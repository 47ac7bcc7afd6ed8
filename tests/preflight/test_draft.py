"""Does the drafter fit the target?"""

from __future__ import annotations

import json
import shutil

from safetensors.torch import load_file

from sglang_dspine.config import load_config
from sglang_dspine.preflight.draft import check_pair, check_values, local_folder
from sglang_dspine.preflight.model import read_target
from tests.support.checkpoints import edit_tensors
from tests.support.pairs import DEMO

from .folders import target


def matching(folder, **changes):
    config = load_config(DEMO / "draft")
    fields = {"hidden_size": config.hidden_size, "vocab_size": config.vocab_size}
    fields["num_hidden_layers"] = config.num_target_layers or max(config.target_layer_ids) + 2
    return read_target(target(folder, **{**fields, "layer_types": None, **changes}))


def test_a_drafter_of_this_target_is_described(tmp_path):
    (finding,) = check_pair(str(DEMO / "draft"), matching(tmp_path))
    assert finding.level == "ok" and "block" in finding.found and "taps" in finding.found


def test_each_number_that_differs_is_named(tmp_path):
    for field, value in (("hidden_size", 48), ("vocab_size", 50), ("num_hidden_layers", 2)):
        (finding,) = check_pair(str(DEMO / "draft"), matching(tmp_path / field, **{field: value}))
        assert finding.level == "fail" and ("layer" if "layers" in field else field) in finding.found
        assert "DRAFT=" in finding.todo


def test_a_repository_that_is_not_here_is_left_to_the_server(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    (finding,) = check_pair("some/drafter", matching(tmp_path / "t"))
    assert finding.level == "warn"


def test_a_cached_repository_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    repository = tmp_path / "hub" / "models--some--drafter"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    assert local_folder("some/drafter") == repository / "snapshots" / "abc"
    assert local_folder("other/drafter") is None


def test_a_path_that_is_not_there_is_refused(tmp_path):
    (finding,) = check_pair("/nowhere/draft", matching(tmp_path))
    assert finding.level == "fail" and "no such folder" in finding.found


def test_numbers_inside_text_config_are_found(tmp_path):
    folder = target(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({"text_config": config, "vision_config": {}}))
    assert read_target(folder).hidden == 5120


def test_of_many_problems_one_line_tells_the_first_and_how_many(tmp_path):
    folder = tmp_path / "draft"
    shutil.copytree(DEMO / "draft", folder)
    edit_tensors(folder, fc__weight=None, norm__weight=None)
    (finding,) = check_pair(str(folder), matching(tmp_path / "t"))
    assert finding.level == "fail" and len(str(finding).splitlines()) == 1
    assert "fc.weight is missing" in finding.found and "; 1 more problems, which sglang-dspine inspect" in finding.found


def test_values_that_no_drafter_has_are_found_and_a_whole_one_is_fine(tmp_path):
    (fine,) = check_values(str(DEMO / "draft"))
    assert fine.level == "ok"
    folder = tmp_path / "draft"
    shutil.copytree(DEMO / "draft", folder)
    edit_tensors(folder, fc__weight=load_file(folder / "model.safetensors")["fc.weight"] * float("nan"))
    (finding,) = check_values(str(folder))
    assert finding.level == "fail" and "fc.weight is not finite" in finding.found and "again" in finding.todo


def test_values_of_a_drafter_that_is_not_here_are_left_to_the_server(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert check_values("some/drafter") == []


def test_a_drafter_cut_short_or_without_a_tensor_is_refused_before_it_is_compared(tmp_path):
    folder = tmp_path / "draft"
    shutil.copytree(DEMO / "draft", folder)
    edit_tensors(folder, fc__weight=None)
    (finding,) = check_pair(str(folder), matching(tmp_path / "t"))
    assert finding.level == "fail" and "fc.weight" in finding.found
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(1000)
    (finding,) = check_pair(str(folder), matching(tmp_path / "t"))
    assert finding.level == "fail" and "download it again" in finding.todo
