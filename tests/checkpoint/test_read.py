"""All three layouts give the same canonical tensors, one at a time."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglang_dspine.checkpoint import Layout, expected_shapes, iter_checkpoint, load_checkpoint
from sglang_dspine.errors import CheckpointError
from tests.support.checkpoints import SLIDING, TINY, edit_tensors, write_checkpoint

VECTORS = Path(__file__).parents[1] / "data" / "vectors"


def same(found, given):
    assert found.keys() == given.keys()
    for name, tensor in given.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name


@pytest.mark.parametrize(
    ("layout", "shards", "config"),
    [
        (Layout.SPECFORGE, 1, TINY),
        (Layout.SPECFORGE, 3, SLIDING),
        (Layout.REFERENCE, 1, TINY),  # the reference has no window
        (Layout.FP8, 1, SLIDING),
        (Layout.FP8, 3, TINY),
    ],
    ids=lambda value: None if value in (TINY, SLIDING) else str(value),
)
def test_what_was_written_is_read(tmp_path, layout, shards, config):
    written = write_checkpoint(tmp_path, config, layout=layout, shards=shards)
    found, tensors = load_checkpoint(tmp_path)
    assert found == config
    same(tensors, written)


@pytest.mark.parametrize("case", ["full", "window"])
def test_the_golden_checkpoints_load(case):
    config, tensors = load_checkpoint(VECTORS / case)
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == expected_shapes(config)
    assert all(tensor.dtype == torch.float32 for tensor in tensors.values())


def test_the_iteration_gives_what_loading_gives_in_name_order(tmp_path):
    written = write_checkpoint(tmp_path)
    pairs = list(iter_checkpoint(tmp_path))
    assert [name for name, _ in pairs] == sorted(written)
    same(dict(pairs), written)


def test_a_dtype_casts_every_tensor(tmp_path):
    written = write_checkpoint(tmp_path, layout=Layout.FP8)
    _, tensors = load_checkpoint(tmp_path, torch.float64)
    same(tensors, {name: tensor.double() for name, tensor in written.items()})


def test_a_model_prefix_is_harmless_and_two_names_for_one_tensor_are_not(tmp_path):
    written = write_checkpoint(tmp_path)
    edit_tensors(tmp_path, fc__weight=None, model__fc__weight=written["fc.weight"])
    same(load_checkpoint(tmp_path)[1], written)
    edit_tensors(tmp_path, fc__weight=written["fc.weight"])
    with pytest.raises(CheckpointError, match=r"fc\.weight is stored twice.*model\.fc\.weight"):
        load_checkpoint(tmp_path)


def test_a_cached_rope_table_is_left_out(tmp_path):
    written = write_checkpoint(tmp_path)
    edit_tensors(tmp_path, rotary_emb__inv_freq=torch.ones(4))
    same(load_checkpoint(tmp_path)[1], written)


def test_a_single_file_may_have_any_name(tmp_path):
    written = write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "dspine.safetensors")
    same(load_checkpoint(tmp_path)[1], written)


def test_training_leftovers_beside_the_reference_codes_are_left_out(tmp_path):
    written = write_checkpoint(tmp_path, layout=Layout.REFERENCE)
    edit_tensors(tmp_path, "transfer.safetensors", mean=torch.zeros(3))
    same(load_checkpoint(tmp_path)[1], written)


def test_headers_are_checked_before_the_first_tensor_is_given(tmp_path):
    write_checkpoint(tmp_path)
    edit_tensors(tmp_path, norm__weight=None)  # the last name in order
    with pytest.raises(CheckpointError, match=r"norm\.weight is missing"):
        next(iter_checkpoint(tmp_path))


def test_a_faulty_tensor_is_never_given_and_all_faults_come_at_the_end(tmp_path):
    write_checkpoint(tmp_path)
    poison = {"fc__weight": _with_nan, "norm__weight": _with_nan}
    edit_tensors(tmp_path, **poison)
    given = []
    with pytest.raises(CheckpointError) as caught:
        for name, _ in iter_checkpoint(tmp_path):
            given.append(name)
    assert set(given) == set(expected_shapes(TINY)) - {"fc.weight", "norm.weight"}
    assert "2 problems" in str(caught.value)


def _with_nan(tensor):
    tensor.view(-1)[3] = float("nan")
    return tensor


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    written = write_checkpoint(folder)
    return folder, written, (folder / "model.safetensors").read_bytes()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_header_loads_or_is_refused_and_nothing_else(whole, data):
    folder, _, content = whole
    size = int.from_bytes(content[:8], "little")
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, size + 7))] = data.draw(st.integers(0, 255))
    (folder / "model.safetensors").write_bytes(damaged)
    try:
        config, tensors = load_checkpoint(folder)
    except CheckpointError as error:
        assert str(folder) in str(error)
    else:
        assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == expected_shapes(config)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ("{", "is no safetensors index"),
        ("[]", "is no safetensors index"),
        ('{"metadata": {}}', "is no safetensors index"),
        ('{"weight_map": {}}', "weight_map is no map"),
        ('{"weight_map": {"fc.weight": 3}}', "weight_map of fc.weight is no file name"),
        ('{"weight_map": {"fc.weight": "../model.safetensors"}}', "weight_map of fc.weight is no file name"),
        ('{"weight_map": {"fc.weight": "gone.safetensors"}}', "gone.safetensors: no such file"),
    ],
)
def test_a_broken_index_is_refused(tmp_path, index, said):
    write_checkpoint(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(CheckpointError, match=said):
        load_checkpoint(tmp_path)


def test_an_index_that_names_the_wrong_shard_is_refused(tmp_path):
    write_checkpoint(tmp_path, shards=2)
    path = tmp_path / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    first, second = sorted(set(index["weight_map"].values()))
    index["weight_map"]["fc.weight"] = first if index["weight_map"]["fc.weight"] == second else second
    path.write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match=r"tensor fc\.weight is missing; expected here"):
        load_checkpoint(tmp_path)
