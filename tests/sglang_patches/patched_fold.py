"""SGLang's fold with the masking patch, under Triton's interpreter; `test_served.py` runs this file."""

from __future__ import annotations

import pytest
import torch
from sglang.kernels.ops.attention.linear.gdn_replayssm_spec_decode import commit_gdn_replayssm_circular as patched

from sglang_dspine.kernels.ring_fold import commit_rings
from tests.kernels.ratio import ratio_error
from tests.kernels.ring_fold.interpreted import BAD, assert_rejected_rows_are_not_felt, made, run


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_number_in_a_rejected_row_is_not_felt(bad):
    assert_rejected_rows_are_not_felt(patched, bad)


def test_a_bad_accepted_row_behind_the_snapshot_spares_the_snapshot():
    case = made(16, accepted=6)
    case["k_cache"][:, 2, :, (int(case["cache_base"][2]) + 5) % 16] = float("nan")
    found = run(patched, case)
    assert found["checkpoint_state"][:, 4].isnan().any() and found["checkpoint_state"][:, 5].isfinite().all()


@pytest.mark.parametrize("ring, history, low", [(16, 0, False), (32, 11, True), (64, 40, False)])
def test_sound_rows_give_the_states_they_gave(ring, history, low):
    case = made(ring, history=history, accepted=7, low=low)
    found, ours = run(patched, case), run(commit_rings, case)
    assert ratio_error(found["checkpoint_state"], ours["checkpoint_state"]) < 1e-6
    for name in ("write_pos", "cache_base", "is_flush"):
        assert torch.equal(found[name], ours[name]), name
