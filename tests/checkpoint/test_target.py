"""A drafter is served only beside the target it was trained for."""

from dataclasses import replace

import pytest

from sglang_dspine.checkpoint import check_against_target, range_warning
from sglang_dspine.errors import CheckpointError
from tests.support.checkpoints import TINY

FITS = {"target_hidden": 32, "target_vocab": 67, "target_layers": 4}


def test_the_right_target_passes():
    check_against_target(TINY, **FITS)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"target_hidden": 64}, ["hidden_size", "expected 64", "found 32"]),
        ({"target_vocab": 64}, ["vocab_size", "expected 64", "found 67"]),
        ({"target_layers": 6}, ["num_target_layers", "expected 6", "found 4"]),
    ],
)
def test_another_target_is_refused_with_both_numbers(change, parts):
    with pytest.raises(CheckpointError, match="another target") as caught:
        check_against_target(TINY, **FITS | change, where="draft")
    for part in ["draft", *parts]:
        assert part in str(caught.value)


@pytest.mark.parametrize(("layers", "said"), [(2, r"ids in \[0, 2\); found \[2\]"), (3, "target's last layer")])
def test_taps_outside_the_target_are_refused_when_the_drafter_does_not_state_its_depth(layers, said):
    config = replace(TINY, num_target_layers=None)
    with pytest.raises(CheckpointError, match=said):
        check_against_target(config, **FITS | {"target_layers": layers})
    check_against_target(config, **FITS)


def test_all_differences_are_told_at_once():
    with pytest.raises(CheckpointError, match="3 problems"):
        check_against_target(TINY, 1, 2, 9)


def test_the_warning_names_the_first_position_out_of_range():
    assert range_warning(TINY, 256) is None
    assert "from position 256 on" in range_warning(TINY, 257)
    yarn = replace(TINY, rope_scaling={"factor": 4.0, "original_max_position_embeddings": 256})
    assert range_warning(yarn, 1024) is None and "from position 1024 on" in range_warning(yarn, 4096)
