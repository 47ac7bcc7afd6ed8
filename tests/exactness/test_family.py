"""Tests that gather all prefixes ending in one token: classes are tokens, wherever each prefix ranks them."""

from __future__ import annotations

import numpy as np
import pytest

from sglang_dspine.exactness.distribution import Outcome, by_token, judge_against_law
from sglang_dspine.exactness.laws import Laws
from sglang_dspine.exactness.samples import Cells, Samples

LAW = {5: (0.5, 0.3, 0.2), 7: (0.2, 0.5, 0.3), 9: (0.2, 0.3, 0.5)}  # of tokens 5, 7, 9, by the last token
TOKENS = np.array([5, 7, 9])


def test_tokens_are_aligned_and_the_rest_stays_the_rest():
    ids = np.array([[7, 5, -1], [9, 7, 5]])
    table = np.array([[4, 3, 0, 1], [6, 5, 2, 8]])
    assert by_token(table, ids).tolist() == [[3, 4, 0, 1], [2, 5, 6, 8]]  # tokens 5, 7, 9, rest


def drawn(law: dict, requests: int = 3000, length: int = 24, seed: int = 0) -> Samples:
    rng = np.random.default_rng(seed)
    tokens = np.full((requests, length), 5)
    for k in range(1, length):
        shares = np.array([law[token] for token in tokens[:, k - 1]])
        tokens[:, k] = TOKENS[(shares.cumsum(1) < rng.random((requests, 1))).sum(1)]
    return Samples(np.zeros(requests, np.int64), tokens)


def law_of(cells: Cells) -> Laws:
    """Likeliest token first, as exact laws come."""
    shares = np.array([LAW[prefix[-1]] for prefix in cells.prefix])
    order = np.argsort(-shares, axis=1, kind="stable")
    return Laws(TOKENS[order], np.take_along_axis(shares, order, 1), np.zeros(len(shares)))


def after(tests) -> dict:
    return {t.name: t for t in tests if t.name.startswith("after ")}


def test_each_last_token_has_a_test_of_all_its_prefixes_and_the_true_law_passes():
    samples = drawn(LAW)
    tests = judge_against_law(samples, law_of)
    found = after(tests)
    assert set(found) == {"after 5", "after 7", "after 9"}
    assert sum(t.n for t in found.values()) == samples.tokens[:, 1:].size
    assert not Outcome.of(tests).rejections


@pytest.mark.parametrize("token", [5, 7])
def test_a_small_fault_behind_one_token_is_seen_behind_that_token(token):
    samples = drawn(LAW | {token: np.add(LAW[token], (0.02, 0.0, -0.02))})
    rejected = {t.name for t in Outcome.of(judge_against_law(samples, law_of)).rejections}
    assert f"after {token}" in rejected and "after 9" not in rejected
