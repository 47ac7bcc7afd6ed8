"""Weights asked for one by one are the weights that loading gives."""

import pytest
import torch

from sglang_dspine.checkpoint import Layout, load_checkpoint
from sglang_dspine.checkpoint.examine import examine_headers
from sglang_dspine.checkpoint.lazy import LazyWeights
from sglang_dspine.errors import CheckpointError
from tests.support.checkpoints import edit_tensors, write_checkpoint


@pytest.mark.parametrize("layout", list(Layout), ids=str)
@pytest.mark.parametrize("dtype", [None, torch.float32], ids=str)
def test_every_weight_is_the_loaded_one(tmp_path, layout, dtype):
    write_checkpoint(tmp_path, layout=layout)
    _, weights = load_checkpoint(tmp_path, dtype)
    read = LazyWeights(examine_headers(tmp_path), dtype)
    found = {**read("fc."), **read("layers."), **read("injection.", "norm.", "hidden_norm.", "transfer_codes")}
    assert found.keys() == weights.keys()
    assert all(found[n].dtype == w.dtype and torch.equal(found[n], w) for n, w in weights.items())


def test_a_prefix_picks_one_layer_and_rows_pick_rows(tmp_path):
    written = write_checkpoint(tmp_path, layout=Layout.REFERENCE)
    read = LazyWeights(examine_headers(tmp_path))
    assert read("layers.1.").keys() == {name for name in written if name.startswith("layers.1.")}
    assert torch.equal(read.rows("transfer_codes", [5, 0, 5]), written["transfer_codes"][[5, 0, 5]])


def test_a_checkpoint_that_would_not_load_is_refused(tmp_path):
    write_checkpoint(tmp_path)
    edit_tensors(tmp_path, fc__weight=None)
    with pytest.raises(CheckpointError, match=r"fc\.weight is missing"):
        LazyWeights(examine_headers(tmp_path))


def test_another_default_device_does_not_matter(tmp_path):
    written = write_checkpoint(tmp_path)
    read = LazyWeights(examine_headers(tmp_path))
    with torch.device("meta"):
        weights, rows = read("fc."), read.rows("transfer_codes", [3])
    assert torch.equal(weights["fc.weight"], written["fc.weight"])
    assert torch.equal(rows, written["transfer_codes"][3:4])
