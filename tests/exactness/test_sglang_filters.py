"""Our filters against the samplers of the installed SGLang: which order is whose."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from sglang_dspine.exactness.filters import Sampling, target_law

from .test_filters import FAULT_21

torch = pytest.importorskip("torch")
pytest.importorskip("sglang")

SETTINGS = [
    Sampling(top_k=4, top_p=0.82),
    Sampling(temperature=0.7, top_k=5),
    Sampling(temperature=1.5, top_p=0.6),
    Sampling(temperature=0.2, top_k=3, top_p=0.9),
]


def rows():
    """Rows without ties: among equals the samplers choose as they like."""
    return np.random.default_rng(0).normal(scale=2.0, size=(8, FAULT_21.size))


def plain_decode(row, sampling):
    from sglang.srt.layers.sampler import top_k_top_p_min_p_sampling_from_probs_torch as sample

    probs = torch.softmax(torch.tensor(row)[None] / sampling.temperature, -1)
    top_k = probs.shape[1] if sampling.top_k < 0 else sampling.top_k
    _, filtered, ids, _ = sample(
        probs,
        torch.tensor([top_k]),
        torch.tensor([sampling.top_p]),
        torch.tensor([sampling.min_p]),
        sampling.min_p > 0,
        None,
        torch.zeros(1, dtype=torch.int64),
        return_filtered_probs=True,
    )
    law = torch.zeros_like(probs).scatter_(1, ids.long(), filtered)[0]
    return (law / law.sum()).numpy()


def family_verify(row, sampling):
    from sglang.srt.speculative.dflash_utils import build_speculative_verify_target_probs as build

    info = SimpleNamespace(
        temperatures=torch.tensor([[sampling.temperature]], dtype=torch.float64),
        top_ks=torch.tensor([row.size if sampling.top_k < 0 else sampling.top_k]),
        top_ps=torch.tensor([sampling.top_p], dtype=torch.float64),
        need_top_k_sampling=sampling.top_k > 0,
        need_top_p_sampling=sampling.top_p < 1,
    )
    logits = torch.tensor(row)[None]
    return build(next_token_logits=logits, sampling_info=info, draft_token_num=1, bs=1)[0, 0].numpy()


@pytest.mark.parametrize("sampling", [*SETTINGS, Sampling(top_k=6, min_p=0.3), Sampling(top_p=0.9, min_p=0.2)])
def test_plain_decode_cuts_jointly(sampling):
    for row in rows():
        np.testing.assert_allclose(plain_decode(row, sampling), target_law(row, sampling), atol=1e-7)


@pytest.mark.parametrize("sampling", SETTINGS)
def test_verify_of_the_dflash_family_cuts_top_k_first(sampling):
    for row in rows():
        expected = target_law(row, sampling, "top_k_first")
        np.testing.assert_allclose(family_verify(row, sampling), expected, atol=1e-7)


def test_fault_21_is_in_the_installed_verify():
    sampling = Sampling(top_k=4, top_p=0.82)
    assert np.count_nonzero(family_verify(np.log(FAULT_21), sampling)) == 3
    assert np.count_nonzero(plain_decode(np.log(FAULT_21), sampling)) == 4
