"""Every kernel compiles ahead of time for Hopper and GB10, without a GPU, without spills, within shared memory."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from sglang_dspine.kernels.at_shape import bridge_launches, launches, rank_launches, table_launches
from sglang_dspine.kernels.head_rows.form import DENSE, FP8, NVFP4
from sglang_dspine.kernels.report import SHARED_LIMIT, Usage, cases, fits, usage


def test_a_kernel_of_each_kind_is_reported():
    names = {launch.name for _, launch in cases(quick=True)}
    assert names == {launch.name for launch in launches(8, 8)} and len(names) == 8


def test_launches_at_shape_allocate_nothing():
    tensors = [t for launch in launches(32, 16) for t in launch.arguments.values() if isinstance(t, torch.Tensor)]
    assert tensors and all(t.device.type == "meta" for t in tensors)


@pytest.mark.parametrize("stack, shared", [(8, 0), (0, 101_377)])
def test_spills_and_too_much_shared_memory_do_not_fit(stack, shared):
    assert not fits(Usage(64, stack, shared, 1.0), 121)
    assert fits(Usage(255, 0, 101_376, 1.0), 121)


def test_the_walk_compiles_for_gb10():
    assert fits(usage(launches(1, 8)[-1], 121), 121)


@pytest.mark.parametrize("capability", sorted(SHARED_LIMIT))
def test_dependent_launches_fetch_ahead_then_wait(capability):
    compiled = bridge_launches(1, 8, dependent=True)[-1].compile(capability)
    code = compiled.asm["ptx"]
    prefetch, start, wait, load = (
        code.index(word)
        for word in ("prefetch.global.L2", "griddepcontrol.launch_dependents", "griddepcontrol.wait", "ld.global")
    )
    assert prefetch < start < wait < load and compiled.metadata.launch_pdl
    plain = bridge_launches(1, 8, dependent=False)[-1].compile(capability)
    assert "griddepcontrol" not in plain.asm["ptx"] and not plain.metadata.launch_pdl


@pytest.mark.full
@pytest.mark.parametrize("capability", sorted(SHARED_LIMIT))
def test_dependent_kernels_at_the_27b_shape_fit(capability):
    for launch in launches(8, 8, dependent=True):
        found = usage(launch, capability)
        assert fits(found, capability), (launch.name, found)


@pytest.mark.full
@pytest.mark.parametrize("capability", sorted(SHARED_LIMIT))
@pytest.mark.parametrize("batch, width", [(1, 8), (8, 8), (32, 16)])
def test_kernels_at_the_27b_shape_fit(capability, batch, width):
    for launch in launches(batch, width):
        found = usage(launch, capability)
        assert fits(found, capability), (launch.name, found)


@pytest.mark.full
@pytest.mark.parametrize("capability", sorted(SHARED_LIMIT))
@pytest.mark.parametrize("form", [FP8, NVFP4], ids=["FP8", "NVFP4"])
def test_the_table_of_a_quantised_head_fits(capability, form):
    found = usage(table_launches(32, 16, form)[0], capability)
    assert fits(found, capability), found


@pytest.mark.full
@pytest.mark.parametrize("capability", sorted(SHARED_LIMIT))
@pytest.mark.parametrize("form", [DENSE, FP8, NVFP4], ids=["dense", "FP8", "NVFP4"])
def test_the_kernels_of_one_rank_among_several_fit(capability, form):
    for launch in rank_launches(8, 16, 2, form)[:2]:
        found = usage(launch, capability)
        assert fits(found, capability), (launch.name, found)


@pytest.mark.full
@pytest.mark.parametrize("capability", sorted(SHARED_LIMIT))
def test_a_tile_too_large_is_seen(capability):
    """The check itself: a write tile of 256 x 256 neither stays in registers nor in shared memory."""
    launch = bridge_launches(32, 16)[-1]
    launch.constants.update(BT=256, BN=256, BK=128)
    assert not fits(usage(launch, capability), capability)
