"""Flags by compute capability."""

from __future__ import annotations

import pytest

from sglang_dspine.serve.hardware import Gpu
from sglang_dspine.serve.profile import choose_profile


def words(gpu: Gpu | None, recurrent: bool = True) -> list[str]:
    return [word for flag in choose_profile(gpu, recurrent).flags for word in flag.words]


GB10, H200, ADA = Gpu("NVIDIA GB10", (12, 1)), Gpu("NVIDIA H200", (9, 0)), Gpu("NVIDIA L40S", (8, 9))


def value(gpu: Gpu | None, flag: str) -> str:
    found = words(gpu)
    return found[found.index(flag) + 1]


@pytest.mark.parametrize(("gpu", "backend"), [(GB10, "fa4"), (H200, "fa3"), (ADA, "triton")])
def test_draft_attention_follows_the_compute_capability(gpu, backend):
    assert value(gpu, "--speculative-draft-attention-backend") == backend


@pytest.mark.parametrize("gpu", [GB10, H200])
def test_a_recurrent_target_gets_the_replay_flags_and_a_dense_one_does_not(gpu):
    replay = {"--enable-linear-replayssm-spec", "--mamba-ssm-dtype", "--mamba-radix-cache-strategy"}
    assert replay <= set(words(gpu))
    assert not replay & set(words(gpu, recurrent=False))


def test_gb10_leaves_memory_to_the_host_that_shares_it():
    assert float(value(GB10, "--mem-fraction-static")) < 0.8
    assert int(choose_profile(GB10, True).environment["MAX_JOBS"]) <= 4
    assert "--mem-fraction-static" not in words(H200)


def test_without_a_gpu_both_dtypes_are_float32():
    assert value(None, "--dtype") == value(None, "--mamba-ssm-dtype") == "float32"
    assert "--mamba-ssm-dtype" not in words(None, recurrent=False)


@pytest.mark.parametrize("gpu", [None, GB10, H200, ADA])
def test_every_flag_and_every_profile_has_a_reason(gpu):
    profile = choose_profile(gpu, True)
    assert profile.reason and all(flag.reason for flag in profile.flags)


def test_an_unknown_card_is_called_unknown():
    assert "no profile" in choose_profile(ADA, True).reason
