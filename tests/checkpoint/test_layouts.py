"""The layout is told from the headers."""

import pytest
import torch

from sglang_dspine.checkpoint import Layout, detect_layout, examine
from tests.support.checkpoints import edit_tensors, write_checkpoint


@pytest.mark.parametrize("layout", list(Layout), ids=str)
def test_each_layout_is_recognised(tmp_path, layout):
    write_checkpoint(tmp_path, layout=layout)
    assert detect_layout(examine(tmp_path).tensors) is layout


def test_a_scale_alone_makes_no_fp8_checkpoint(tmp_path):
    write_checkpoint(tmp_path)
    edit_tensors(tmp_path, fc__weight_scale=torch.ones(32, 1))
    assert examine(tmp_path).layout is Layout.SPECFORGE


def test_an_fp8_checkpoint_that_lost_its_scales_is_still_one(tmp_path):
    write_checkpoint(tmp_path, layout=Layout.FP8)
    scales = [name for name in examine(tmp_path).tensors if name.endswith("_scale")]
    edit_tensors(tmp_path, **dict.fromkeys(scales))
    seen = examine(tmp_path)
    assert seen.layout is Layout.FP8 and len(seen.problems) == len(scales) == 15
