"""Top-k, top-p and min-p are those of SGLang's own plain sampler, which is the judge, and of a brute force."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_dspine.verify.filter import ROWS_SORTED, filter_joint, target_distribution

few = settings(max_examples=40, deadline=None, derandomize=True)
FAULT_21 = torch.tensor([[0.35, 0.25, 0.20, 0.05, 0.03, 0.03, 0.03, 0.03, 0.03]])


def limits(rows: int, top_k: int, top_p: float, min_p: float):
    return (
        torch.full((rows, 1), top_k),
        torch.full((rows, 1), top_p, dtype=torch.float32),
        torch.full((rows, 1), min_p, dtype=torch.float32),
    )


def judge(probs: torch.Tensor, top_k: int, top_p: float, min_p: float) -> torch.Tensor:
    """What SGLang's plain sampler draws from, by token id and renormalised."""
    from sglang.srt.layers.sampler import top_k_top_p_min_p_sampling_from_probs_torch

    ks, ps, ms = (t[:, 0] for t in limits(len(probs), top_k, top_p, min_p))
    _, weights, ids, _ = top_k_top_p_min_p_sampling_from_probs_torch(
        probs.clone(), ks, ps, ms, min_p > 0, None, torch.zeros(len(probs)), return_filtered_probs=True
    )
    law = torch.zeros_like(probs).scatter(1, ids.long(), weights)
    return law / law.sum(-1, keepdim=True)


def sampling(rows: int) -> SimpleNamespace:
    random = torch.Generator().manual_seed(1)
    return SimpleNamespace(
        temperatures=torch.full((rows, 1), 0.8), top_ks=torch.randint(3, 9, (rows,), generator=random),
        top_ps=torch.rand(rows, generator=random), min_ps=torch.zeros(rows), need_top_k_sampling=True,
        need_top_p_sampling=True, need_min_p_sampling=False,
    )  # fmt: skip


def test_a_large_batch_is_filtered_in_pieces_with_each_rows_own_limits():
    """The whole vocabulary of every row, sorted at once, would take gigabytes."""
    rows, width = 50, 3
    logits, given = torch.randn(rows * width, 30, generator=torch.Generator().manual_seed(0)), sampling(rows)
    assert rows * width > 2 * ROWS_SORTED
    found = target_distribution(logits, given, width, None)
    for row in range(rows):
        one = SimpleNamespace(**{k: v[row : row + 1] if hasattr(v, "shape") else v for k, v in vars(given).items()})
        alone = target_distribution(logits[row * width : (row + 1) * width], one, width, None)
        assert torch.equal(found[row], alone[0])


def brute_force(row: list[float], top_k: int, top_p: float, min_p: float) -> list[float]:
    """Token by token: fewer than top_k likelier, at most top_p of mass above it, min_p of the likeliest."""

    def stays(p: float) -> bool:
        likelier = [other for other in row if other > p]
        return len(likelier) < top_k and sum(likelier) <= top_p and p >= min_p * max(row)

    kept = [p if stays(p) else 0.0 for p in row]
    return [p / sum(kept) for p in kept]


@few
@given(
    seed=st.integers(0, 999),
    top_k=st.sampled_from([1, 2, 5, 20, 1 << 30]),
    top_p=st.sampled_from([0.05, 0.5, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
)
def test_the_law_is_sglangs_and_the_brute_forces(seed, top_k, top_p, min_p):
    logits = 2 * torch.randn(6, 25, generator=torch.Generator().manual_seed(seed))
    probs = logits.softmax(-1)
    found = filter_joint(probs, *limits(6, top_k, top_p, min_p), None)
    torch.testing.assert_close(found, judge(probs, top_k, top_p, min_p), rtol=1e-5, atol=1e-7)
    by_hand = torch.tensor([brute_force(row, top_k, top_p, min_p) for row in probs.double().tolist()])
    torch.testing.assert_close(found, by_hand.float(), rtol=1e-5, atol=1e-7)
    bounded = filter_joint(probs, *limits(6, min(top_k, 25), top_p, min_p), min(top_k, 25))
    torch.testing.assert_close(bounded, found, rtol=1e-6, atol=0)


@pytest.mark.report(21)
def test_top_p_counts_the_mass_before_top_k_on_the_reported_vector():
    found = filter_joint(FAULT_21, *limits(1, 4, 0.82, 0.0), 4)
    torch.testing.assert_close(found, judge(FAULT_21, 4, 0.82, 0.0))
    torch.testing.assert_close(found[0, :4], FAULT_21[0, :4] / 0.85)
    after = filter_joint(FAULT_21, *limits(1, 4, 0.82, 0.0), 4, sequential=True)
    assert after[0, 3] == 0 and found[0, 3] > 0, "the two orders must differ here, or the vector tests nothing"


def info(n: int, **changes) -> SimpleNamespace:
    given = {
        "temperatures": torch.full((n, 1), 0.8), "top_ks": torch.tensor([1 << 30, 3, 1, 10][:n]),
        "top_ps": torch.tensor([0.9, 1.0, 1.0, 0.5][:n]), "min_ps": torch.zeros(n), "need_top_k_sampling": True,
        "need_top_p_sampling": True, "need_min_p_sampling": False,
    }  # fmt: skip
    return SimpleNamespace(**{**given, **changes})


def test_each_request_of_a_block_has_its_own_limits_on_all_its_rows():
    n, w, vocab = 4, 3, 30
    logits = 2 * torch.randn(n * w, vocab, generator=torch.Generator().manual_seed(0))
    settings_of = info(n)
    found = target_distribution(logits, settings_of, w, None)
    assert found.shape == (n, w, vocab) and found.dtype == torch.float32
    torch.testing.assert_close(found.sum(-1), torch.ones(n, w))
    for i in range(n):
        probs = (logits.view(n, w, vocab)[i] / 0.8).softmax(-1)
        expected = judge(probs, int(settings_of.top_ks[i]), float(settings_of.top_ps[i]), 0.0)
        torch.testing.assert_close(found[i], expected, rtol=1e-5, atol=1e-7)


def test_without_a_filter_the_law_is_the_softmax_at_each_requests_temperature():
    n, w, vocab = 3, 2, 12
    logits = torch.randn(n * w, vocab, generator=torch.Generator().manual_seed(1))
    heat = torch.tensor([[0.5], [1.0], [2.0]])
    plain = info(n, temperatures=heat, need_top_k_sampling=False, need_top_p_sampling=False)
    expected = (logits.view(n, w, vocab) / heat[:, None]).softmax(-1)
    torch.testing.assert_close(target_distribution(logits, plain, w, None), expected)


def test_bfloat16_logits_are_filtered_in_float32():
    logits = torch.randn(6, 50, generator=torch.Generator().manual_seed(2)).bfloat16()
    found = target_distribution(logits, info(2), 3, None)
    expected = target_distribution(logits.float(), info(2), 3, None)
    assert found.dtype == torch.float32 and torch.equal(found, expected)


@pytest.mark.parametrize("backend, min_p, renormalised", [
    ("pytorch", False, False), ("pytorch", True, False), ("flashinfer", False, False), ("flashinfer", True, True),
])  # fmt: skip
def test_top_p_counts_what_top_k_left_over_for_flashinfer_with_min_p_alone(backend, min_p, renormalised, monkeypatch):
    """As plain decode does there: SGLang then runs FlashInfer's filters one after the other."""
    kernel = SimpleNamespace(kernel=SimpleNamespace(sampling_backend=backend))
    monkeypatch.setattr("sglang.srt.runtime_context.get_exec", lambda: kernel)
    asked = info(
        1, temperatures=torch.ones(1, 1), top_ks=torch.tensor([4]), top_ps=torch.tensor([0.82]),
        min_ps=torch.tensor([0.01]), need_min_p_sampling=min_p,
    )  # fmt: skip
    found = target_distribution(FAULT_21.log(), asked, 1, 4)
    assert (found[0, 0, 3] == 0) == renormalised


def test_one_filter_after_the_other_takes_each_row_by_itself():
    probs = (2 * torch.randn(5, 12, generator=torch.Generator().manual_seed(3))).softmax(-1)
    found = filter_joint(probs, *limits(5, 4, 0.7, 0.02), 4, sequential=True)
    for row, law in zip(probs.double().tolist(), found, strict=True):
        fourth = sorted(row)[-4]
        left = [p if p >= fourth else 0.0 for p in row]
        expected = brute_force([p / sum(left) for p in left], 4, 0.7, 0.02)
        torch.testing.assert_close(law, torch.tensor(expected), rtol=1e-5, atol=1e-7)
