"""SGLang's own commit reaches our fold, with the parameters it passes."""

from __future__ import annotations

import inspect

import pytest
from sglang.kernels.ops.attention.linear import gdn_replayssm_spec_decode as module

from sglang_dspine.commit.ring import fold_with_own_kernel
from sglang_dspine.kernels.ring_fold import commit_rings


@pytest.fixture
def original(monkeypatch):
    monkeypatch.setattr(module, "commit_gdn_replayssm_circular", kept := module.commit_gdn_replayssm_circular)
    return kept


@pytest.mark.report(2)
def test_the_function_that_commits_is_replaced_and_takes_the_same_parameters(original):
    assert inspect.signature(original).parameters.keys() == inspect.signature(commit_rings).parameters.keys()
    fold_with_own_kernel()
    assert module.commit_gdn_replayssm_circular is commit_rings


def test_with_the_kernels_off_sglangs_own_stays(original, monkeypatch):
    monkeypatch.setenv("DSPINE_KERNELS", "0")
    fold_with_own_kernel()
    assert module.commit_gdn_replayssm_circular is original
