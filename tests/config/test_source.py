"""config.json as a file: absent, broken, fingerprinted."""

import hashlib

import pytest

from sglang_dspine.config import load_config
from sglang_dspine.config.source import read_source
from sglang_dspine.errors import CheckpointError
from tests.support.checkpoints import write_checkpoint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"hidden_size": 32', "is no JSON"),
        (b"", "is no JSON"),
        (b"\xff\xfe\xff", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[1]", "expected a JSON object"),
        (b"null", "expected a JSON object"),
    ],
)
def test_a_broken_config_file_is_named(tmp_path, content, said):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=said) as caught:
        load_config(tmp_path)
    assert str(tmp_path / "config.json") in str(caught.value)


def test_a_folder_without_config_and_no_folder_are_told_apart(tmp_path):
    with pytest.raises(CheckpointError, match=r"config\.json: no such file"):
        load_config(tmp_path)
    with pytest.raises(CheckpointError, match="no such folder"):
        load_config(tmp_path / "typo")


def test_the_fingerprint_is_that_of_the_file(tmp_path):
    write_checkpoint(tmp_path)
    expected = hashlib.sha256((tmp_path / "config.json").read_bytes()).hexdigest()
    assert read_source(tmp_path).sha256 == expected
