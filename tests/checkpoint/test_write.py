"""A file written tensor by tensor is the file the library would read, and is never taken for whole when it is not."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from sglang_dspine.checkpoint.write import TensorWriter, plan_file
from sglang_dspine.headers import read_header

DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F8_E4M3": torch.float8_e4m3fn, "BOOL": torch.bool}
names = st.text("abc.", min_size=1)
shapes = st.lists(st.integers(1, 5), max_size=3).map(tuple)


def some(shape, dtype):
    return (torch.rand(shape) * 3).to(DTYPES[dtype])


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(names, st.tuples(shapes, st.sampled_from(sorted(DTYPES))), min_size=1), st.randoms())
def test_any_tensors_in_any_order_are_read_back(tmp_path_factory, wanted, seed):
    path = tmp_path_factory.mktemp("file") / "model.safetensors"
    tensors = {name: some(*spec) for name, spec in wanted.items()}
    order = list(tensors)
    seed.shuffle(order)
    plan = plan_file(path, wanted)
    with TensorWriter(path, plan) as writer:
        for name in order:
            writer.write(name, tensors[name])
    found = load_file(path)
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name].float(), tensor.float())
    assert {name: (t.shape, t.dtype) for name, t in read_header(path).items()} == wanted


def test_a_tensor_that_never_came_is_an_error(tmp_path):
    plan = plan_file(tmp_path / "f", {"a": ((2,), "F32"), "b": ((2,), "F32")})
    with pytest.raises(ValueError, match="never written: b"), TensorWriter(tmp_path / "f", plan) as writer:
        writer.write("a", torch.zeros(2))


@pytest.mark.parametrize("tensor", [torch.zeros(3), torch.zeros(2, dtype=torch.bfloat16)], ids=["shape", "dtype"])
def test_a_tensor_other_than_planned_is_refused(tmp_path, tensor):
    plan = plan_file(tmp_path / "f", {"a": ((2,), "F32")})
    with pytest.raises(ValueError, match=r"a: planned \(2,\) F32"), TensorWriter(tmp_path / "f", plan) as writer:
        writer.write("a", tensor)


def test_a_file_that_is_there_is_not_overwritten(tmp_path):
    (tmp_path / "f").write_text("mine")
    with pytest.raises(FileExistsError):
        TensorWriter(tmp_path / "f", {})
    assert (tmp_path / "f").read_text() == "mine"
