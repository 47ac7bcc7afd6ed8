"""`inspect` says what a checkpoint holds and whether it would load."""

import hashlib
import json

import pytest
import torch
from typer.testing import CliRunner

from sglang_dspine.checkpoint import Layout, load_checkpoint
from sglang_dspine.cli.main import app
from sglang_dspine.errors import CheckpointError
from tests.support.checkpoints import SLIDING, TINY, edit_config, edit_tensors, write_checkpoint


def inspect(*arguments):
    result = CliRunner().invoke(app, ["inspect", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def findings(folder):
    status, output = inspect(folder, "--json")
    return status, json.loads(output)


@pytest.mark.parametrize("layout", list(Layout), ids=str)
def test_a_whole_checkpoint_would_load_and_its_bytes_add_up(tmp_path, layout):
    write_checkpoint(tmp_path, layout=layout)
    status, found = findings(tmp_path)
    assert status == 0 and found["loads"] and found["problems"] == []
    assert found["layout"]["number"] == layout.value
    assert sum(group["bytes"] for group in found["groups"].values()) == found["bytes"]
    payload = 0
    for file in tmp_path.glob("*.safetensors"):
        content = file.read_bytes()
        payload += len(content) - 8 - int.from_bytes(content[:8], "little")
    assert found["bytes"] == payload  # headers aside, every byte is accounted for


def test_each_group_has_its_tensors(tmp_path):
    write_checkpoint(tmp_path, layout=Layout.FP8)
    groups = findings(tmp_path)[1]["groups"]
    assert {group: entry["tensors"] for group, entry in groups.items()} == {
        "layers": 2 * (11 + 7),
        "fc": 2,
        "codes": 2,
        "readouts": 2,
        "writes": 2,
        "message and gates": 4,
        "norms": 2,
    }
    assert groups["layers"]["dtypes"] == ["BF16", "F32", "F8_E4M3"]
    assert groups["readouts"]["bytes"] == 2 * 16 * 32 * 2


def test_the_config_and_its_fingerprint_are_shown(tmp_path):
    write_checkpoint(tmp_path, SLIDING)
    _, found = findings(tmp_path)
    assert found["config"]["block_size"] == 16 and found["proposals"] == 15
    assert found["config"]["target_layer_ids"] == [0, 2] and found["config"]["sliding_window"] == 12
    assert found["config_sha256"] == hashlib.sha256((tmp_path / "config.json").read_bytes()).hexdigest()
    status, text = inspect(tmp_path)
    assert status == 0
    for part in (found["config_sha256"], "15 proposals", "0, 2 of 4", "12 positions in 2 of 2", "would load"):
        assert part in text


def test_every_problem_is_listed_and_the_status_says_no(tmp_path):
    write_checkpoint(tmp_path)
    edit_config(tmp_path, dflash_config__mask_token_id=67)
    edit_tensors(tmp_path, norm__weight=torch.full((32,), float("nan")))
    status, found = findings(tmp_path)
    assert status == 1 and not found["loads"] and len(found["problems"]) == 2
    status, text = inspect(tmp_path)
    assert status == 1 and "would not load: 2 problems" in text
    for problem in found["problems"]:
        assert problem in text


def test_inspect_and_loading_agree(tmp_path):
    write_checkpoint(tmp_path)
    edit_tensors(tmp_path, fc__weight=None, extra=torch.ones(2))
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(tmp_path)
    assert findings(tmp_path)[1]["problems"] == [str(problem) for problem in caught.value.problems]


def test_brackets_in_a_path_are_shown_as_they_are(tmp_path):
    folder = tmp_path / "[bold]odd[/bold]"
    write_checkpoint(folder)
    assert str(folder) in inspect(folder)[1]


def test_a_missing_folder_is_one_plain_line(tmp_path):
    status, text = inspect(tmp_path / "typo")
    assert status == 1 and "no such folder" in text and "Traceback" not in text


def test_what_the_reference_form_overruled_is_noted(tmp_path):
    write_checkpoint(tmp_path, TINY, layout=Layout.REFERENCE)
    edit_config(tmp_path, block_size=8)
    status, text = inspect(tmp_path)
    assert status == 0 and "note: block_size 8 gives way to 16" in text
