"""A model that was trained on, in place, is another one."""

from __future__ import annotations

import pytest

from sglang_dspine.checkpoint import fingerprint as module
from sglang_dspine.checkpoint.fingerprint import fingerprint
from tests.support.checkpoints import change_a_bit, edit_tensors, write_checkpoint


def test_other_values_of_the_same_size_are_another_model(tmp_path):
    write_checkpoint(tmp_path)
    before = fingerprint(tmp_path)
    assert fingerprint(tmp_path) == before
    edit_tensors(tmp_path, norm__weight=lambda tensor: tensor + 1)
    assert fingerprint(tmp_path) != before


@pytest.mark.parametrize("change", ["config", "weights", "name"])
def test_config_weights_and_names_count(tmp_path, change):
    write_checkpoint(tmp_path)
    before, weights = fingerprint(tmp_path), tmp_path / "model.safetensors"
    if change == "config":
        (tmp_path / "config.json").write_text((tmp_path / "config.json").read_text() + " ")
    elif change == "weights":
        change_a_bit(weights)
    else:
        weights.rename(tmp_path / "other.safetensors")
    assert fingerprint(tmp_path) != before


def test_of_a_large_file_ends_and_samples_between_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SAMPLE", 64)
    (tmp_path / "config.json").write_text("{}")
    path, content = tmp_path / "model.safetensors", bytearray(64 * 1000)
    path.write_bytes(content)
    before = fingerprint(tmp_path)
    for place in (0, len(content) - 1, (len(content) - 64) * 7 // 15 + 5):
        changed = bytearray(content)
        changed[place] = 1
        path.write_bytes(changed)
        assert fingerprint(tmp_path) != before, place
    path.write_bytes(content)
    assert fingerprint(tmp_path) == before


def test_a_folder_without_a_config_is_no_model(tmp_path):
    with pytest.raises(OSError, match=r"config\.json"):
        fingerprint(tmp_path)
