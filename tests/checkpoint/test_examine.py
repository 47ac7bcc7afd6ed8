"""An examination finds everything and raises nothing."""

import pytest
import torch

from sglang_dspine.checkpoint import Layout, examine
from tests.support.checkpoints import TINY, edit_config, edit_tensors, write_checkpoint


@pytest.mark.parametrize("layout", list(Layout), ids=str)
def test_a_whole_checkpoint_has_no_problems(tmp_path, layout):
    write_checkpoint(tmp_path, layout=layout)
    seen = examine(tmp_path)
    assert seen.problems == [] and seen.config == TINY and seen.source.sha256


def test_values_are_judged_even_where_headers_or_config_are_at_fault(tmp_path):
    write_checkpoint(tmp_path, layout=Layout.FP8)
    edit_config(tmp_path, head_dim=None)
    edit_tensors(
        tmp_path,
        norm__weight=torch.full((3,), float("nan")),
        fc__weight_scale=torch.ones(7),
        transfer_codes=torch.ones(5),
        odd=torch.ones(2, dtype=torch.int32),
    )
    messages = [str(problem) for problem in examine(tmp_path).problems]
    assert any("head_dim is missing" in message for message in messages)
    assert any("norm.weight is not finite" in message for message in messages)


@pytest.mark.parametrize("left", [(), ("config.json",), ("model.safetensors",)])
def test_what_is_absent_is_a_problem_not_an_exception(tmp_path, left):
    write_checkpoint(tmp_path)
    for file in tmp_path.iterdir():
        if file.name not in left:
            file.unlink()
    seen = examine(tmp_path)
    assert len(seen.problems) == 2 - len(left)
    assert len(examine(tmp_path / "nowhere").problems) == 1


def test_one_damaged_file_is_one_problem(tmp_path):
    """The reference form is told from the model file, so two readers stumble over it."""
    write_checkpoint(tmp_path, layout=Layout.REFERENCE)
    (tmp_path / "model.safetensors").write_bytes(b"short")
    assert len(examine(tmp_path).problems) == 1
