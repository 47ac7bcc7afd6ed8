"""Headers tell what a file holds; a file that is not whole is named with the likeliest cause."""

import pytest
import torch
from safetensors.torch import save_file

from sglang_dspine.errors import CheckpointError
from sglang_dspine.headers import read_header

TENSORS = {
    "half": torch.zeros(3, 4, dtype=torch.bfloat16),
    "eighth": torch.zeros(5, 2).to(torch.float8_e4m3fn),
    "flag": torch.tensor(True),
}


@pytest.fixture
def file(tmp_path):
    save_file(TENSORS, tmp_path / "x.safetensors")
    return tmp_path / "x.safetensors"


def test_shape_dtype_and_size_are_those_of_the_tensors(file):
    header = read_header(file)
    assert {name: (tensor.shape, tensor.dtype) for name, tensor in header.items()} == {
        "half": ((3, 4), "BF16"),
        "eighth": ((5, 2), "F8_E4M3"),
        "flag": ((), "BOOL"),
    }
    for name, tensor in TENSORS.items():
        assert header[name].nbytes == tensor.numel() * tensor.element_size()


def test_a_file_cut_at_any_place_is_refused_by_name(file):
    whole = file.read_bytes()
    for length in range(0, len(whole), 7):
        file.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="cut short or damaged") as caught:
            read_header(file)
        assert str(file) in str(caught.value) and f"found {length} bytes" in str(caught.value)


def test_a_git_lfs_pointer_is_recognised(file):
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    with pytest.raises(CheckpointError, match="git lfs pull"):
        read_header(file)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "none.safetensors", tmp_path):
        with pytest.raises(CheckpointError, match="no such file"):
            read_header(path)
