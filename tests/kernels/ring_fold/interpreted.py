"""Folding ring rows under Triton's interpreter: the sequential recurrence in float64, SGLang's own kernel, bad numbers.

`../test_interpreted.py` runs this file.
"""

from __future__ import annotations

import pytest
import torch
from sglang.kernels.ops.attention.linear.gdn_replayssm_spec_decode import commit_gdn_replayssm_circular as upstream

from sglang_dspine.kernels.ring_fold import commit_rings
from sglang_dspine.kernels.ring_fold.naive import commit_naive, fold_naive, recur
from sglang_dspine.kernels.ring_fold.plan import Rings, Rows
from tests.kernels.ratio import ratio_error

LAYERS, SLOTS, REQUESTS, H, HV, V, K = 2, 6, 4, 1, 2, 32, 16
BAD = [float("nan"), float("inf"), float("-inf")]


def made(ring: int, seed: int = 0, history: int = 0, accepted: int = 5, low: bool = False) -> dict:
    """Rings that hold `history` rows of earlier steps and `accepted` ones of this step, by the recurrence.

    Two requests: ring slots 2 and 1, state slots 4 and 3, snapshots to slots 5 and none. Unused rows are noise.
    """
    g = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    states, n = normal(LAYERS, SLOTS, HV, V, K), history + accepted
    d, k = normal(LAYERS, REQUESTS, HV, ring, V), normal(LAYERS, REQUESTS, H, ring, K)
    gates, expected = normal(LAYERS, REQUESTS, HV, ring), {}
    base = torch.tensor([0, 3, ring - 2, 0])
    for layer in range(LAYERS):
        for slot, state_slot in ((2, 4), (1, 3)):
            place = (base[slot] + torch.arange(n)) % ring
            keys = torch.nn.functional.normalize(normal(H, n, K), dim=-1)
            decay, beta = -torch.rand(HV, n, generator=g, dtype=torch.float64), torch.rand(HV, n, generator=g)
            wide = keys.repeat_interleave(HV // H, 0)
            after, updates = recur(states[layer, state_slot], wide, normal(HV, n, V), decay, beta.double())
            k[layer, slot][:, place], d[layer, slot][:, place] = keys, updates
            gates[layer, slot][:, place] = decay
            expected[layer, slot] = after
    half = torch.float16 if low else torch.float32  # the interpreter multiplies no BF16 matrices
    rest = lambda x: (x - x.to(half).double()).to(half) if low else None  # noqa: E731
    return {
        "expected": expected, "checkpoint_state": states.float(), "d_cache": d.to(half), "k_cache": k.to(half),
        "g_cache": gates.float(), "d_residual_cache": rest(d), "k_residual_cache": rest(k),
        "state_batch_indices": torch.tensor([4, 3, -1]), "replay_indices": torch.tensor([2, 1, 0]),
        "write_pos": torch.tensor([7, n, n, 7], dtype=torch.int32), "cache_base": base.int(),
        "is_flush": torch.ones(REQUESTS, dtype=torch.int8), "accept_lens": torch.tensor([accepted, accepted, 0]),
        "mamba_track_indices": torch.tensor([5, -1, -1]),
        "mamba_steps_to_track": torch.tensor([accepted // 2, -1, -1]),
    }  # fmt: skip


def run(commit, case: dict) -> dict:
    """The arguments after the commit; the case stays as it was."""
    given = {name: value.clone() if torch.is_tensor(value) else value for name, value in case.items()}
    expected = given.pop("expected")
    commit(**given)
    return given | {"expected": expected}


@pytest.mark.parametrize("accepted", range(1, 17))
def test_every_accept_length_gives_the_state_of_the_sequential_recurrence(accepted):
    case = made(16, seed=accepted, accepted=accepted, low=accepted % 2 == 0)  # float32, or 16 bits and residuals
    found = run(commit_rings, case)
    for layer in range(LAYERS):
        for slot, state_slot in ((2, 4), (1, 3)):
            after = case["expected"][layer, slot]
            assert ratio_error(found["checkpoint_state"][layer, state_slot], after[-1]) < 2e-6
        snapshot = case["expected"][layer, 2][accepted // 2]
        assert ratio_error(found["checkpoint_state"][layer, 5], snapshot) < 2e-6


@pytest.mark.parametrize("ring, history", [(16, 0), (32, 11), (64, 40)])
def test_states_and_cursors_are_sglangs_own(ring, history):
    case = made(ring, history=history, accepted=7)
    ours, theirs = run(commit_rings, case), run(upstream, case)
    for name in ("write_pos", "cache_base", "is_flush"):
        assert torch.equal(ours[name], theirs[name]), name
    assert ratio_error(ours["checkpoint_state"], theirs["checkpoint_state"]) < 1e-6
    others = [0, 1, 2]
    assert torch.equal(ours["checkpoint_state"][:, others], case["checkpoint_state"][:, others])


def plainly(**given) -> None:
    """`commit_rings` where there is neither a GPU nor an interpreter."""
    names = ("checkpoint_state", "d_cache", "k_cache", "g_cache", "d_residual_cache", "k_residual_cache", "write_pos",
             "cache_base", "is_flush")  # fmt: skip
    rows = ("state_batch_indices", "replay_indices", "accept_lens", "mamba_track_indices", "mamba_steps_to_track")
    commit_naive(Rings(*(given[name] for name in names)), Rows(*(given[name] for name in rows)), -1)


@pytest.mark.parametrize("ring, history, low", [(16, 0, False), (32, 11, True), (64, 40, False)])
def test_the_plain_form_does_what_the_launches_do(ring, history, low):
    case = made(ring, history=history, accepted=7, low=low)
    case["is_flush"][1] = 0
    ours, plain = run(commit_rings, case), run(plainly, case)
    for name in ("write_pos", "cache_base", "is_flush"):
        assert torch.equal(ours[name], plain[name]), name
    assert ratio_error(plain["checkpoint_state"], ours["checkpoint_state"]) < 1e-6


def test_a_history_that_is_not_due_stays_and_only_the_snapshot_is_written():
    case = made(64, history=9, accepted=6)
    case["is_flush"].zero_()
    found = run(commit_rings, case)
    kept = [0, 1, 2, 3, 4]
    assert torch.equal(found["checkpoint_state"][:, kept], case["checkpoint_state"][:, kept])
    assert torch.equal(found["write_pos"], case["write_pos"])
    for layer in range(LAYERS):
        snapshot = case["expected"][layer, 2][9 + 6 // 2]
        assert ratio_error(found["checkpoint_state"][layer, 5], snapshot) < 2e-6


def test_nothing_accepted_leaves_the_state():
    case = made(16, accepted=4)
    case["write_pos"].zero_()
    case["accept_lens"].zero_()
    case["mamba_steps_to_track"].fill_(-1)
    found = run(commit_rings, case)
    assert torch.equal(found["checkpoint_state"], case["checkpoint_state"])


def poisoned(bad: float, low: bool, part: str) -> dict:
    """One bad number in the first rejected row of request 0."""
    case = made(16, accepted=5, low=low)
    row = (int(case["cache_base"][2]) + 5) % 16
    case[part][:, 2, :, row] = bad
    return case


PARTS = ["d_cache", "k_cache", "g_cache", "d_residual_cache", "k_residual_cache"]


def assert_rejected_rows_are_not_felt(fold, bad: float) -> None:
    clean = run(fold, made(16, accepted=5, low=True))
    for part in PARTS:
        dirty = run(fold, poisoned(bad, True, part))
        assert torch.equal(dirty["checkpoint_state"], clean["checkpoint_state"]), part


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_number_in_a_rejected_row_is_not_felt(bad):
    assert_rejected_rows_are_not_felt(commit_rings, bad)


def test_the_same_number_poisons_the_state_in_sglangs_kernel():
    """Why the kernel exists; when this fails, SGLang has repaired its own and ours can go."""
    for part in PARTS:
        if part != "g_cache":  # gates are masked there
            found = run(upstream, poisoned(float("nan"), True, part))
            assert found["checkpoint_state"][:, 4].isnan().any(), part


def test_a_bad_accepted_row_behind_the_snapshot_spares_the_snapshot():
    case = made(16, accepted=6)
    row = (int(case["cache_base"][2]) + 5) % 16
    case["k_cache"][:, 2, :, row] = float("nan")
    found = run(commit_rings, case)
    assert found["checkpoint_state"][:, 4].isnan().any() and found["checkpoint_state"][:, 5].isfinite().all()


def test_the_folded_form_is_the_recurrence():
    g = torch.Generator().manual_seed(3)
    normal = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    state, k = normal(HV, V, K), torch.nn.functional.normalize(normal(HV, 9, K), dim=-1)
    decay = -torch.rand(HV, 9, generator=g, dtype=torch.float64)
    after, d = recur(state, k, normal(HV, 9, V), decay, torch.rand(HV, 9, generator=g, dtype=torch.float64))
    assert ratio_error(fold_naive(state, d, k, decay), after[-1]) < 1e-14


def test_a_fold_one_row_short_or_long_is_seen():
    case = made(16, accepted=5)
    for wrong in (4, 6):
        case["write_pos"][2] = wrong
        found = run(commit_rings, case)["checkpoint_state"]
        assert ratio_error(found[0, 4], case["expected"][0, 2][4]) > 1e-2
