"""Laws from a row's top logprobs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sglang_dspine.errors import DSpineError
from sglang_dspine.exactness.filters import Sampling, target_law
from sglang_dspine.exactness.laws import law_from_logprobs

VOCAB = 12


def listed(logits, count):
    """The `count` most probable tokens, as a server lists them."""
    logprobs = logits - np.log(np.exp(logits).sum())
    ids = np.argsort(-logprobs, kind="stable")[:count]
    return logprobs[ids], ids


logits = st.lists(st.floats(-6, 6, width=16), min_size=VOCAB, max_size=VOCAB, unique=True).map(np.array)
samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.2, 0.7, 1.0, 1.5]),
    top_k=st.sampled_from([-1, 1, 3, 5]),
    top_p=st.sampled_from([1.0, 0.9, 0.5]),
    min_p=st.sampled_from([0.0, 0.2]),
)


@settings(max_examples=60, deadline=None)
@given(logits, samplings, st.integers(2, VOCAB), st.sampled_from(["joint", "top_k_first"]), st.booleans())
def test_a_law_from_a_list_is_the_law_of_the_row_or_refused(row, sampling, count, order, knows_vocab):
    assume(np.diff(np.sort(row)).min() > 1e-3)
    try:
        ids, probs, rest = law_from_logprobs(
            *listed(row, count), sampling, order=order, vocab_size=VOCAB if knows_vocab else None
        )
    except DSpineError:
        assert count < VOCAB
        return
    expected = target_law(row, sampling, order)
    # A nucleus that ends exactly on a boundary may fall either way in float.
    assume(np.count_nonzero(expected) == len(ids) or rest > 0)
    np.testing.assert_allclose(probs, expected[ids], atol=2e-4)
    assert rest == pytest.approx(1 - expected[ids].sum(), abs=2e-4)


def test_a_cut_beyond_the_list_is_refused():
    row = np.linspace(0, 1, VOCAB)
    with pytest.raises(DSpineError, match="4 listed tokens are too few"):
        law_from_logprobs(*listed(row, 4), Sampling(top_k=6), vocab_size=VOCAB)


def test_an_open_tail_is_refused_without_the_vocabulary_size():
    row = np.linspace(0, 1, VOCAB)
    with pytest.raises(DSpineError, match="name the vocabulary size"):
        law_from_logprobs(*listed(row, 8), Sampling(temperature=1.5))


def test_top_k_within_the_list_needs_no_tail():
    row = np.linspace(0, 3, VOCAB)
    ids, probs, rest = law_from_logprobs(*listed(row, 5), Sampling(temperature=1.5, top_k=4))
    np.testing.assert_allclose(probs, target_law(row, Sampling(temperature=1.5, top_k=4))[ids])
    assert rest == 0


def test_tokens_tied_at_a_cut_are_judged_together():
    row = np.array([3.0, 2.0, 1.0, 1.0, 1.0, 0.0])
    ids, probs, rest = law_from_logprobs(*listed(row, 6), Sampling(top_k=4), vocab_size=6)
    assert ids.tolist() == [0, 1]
    weights = np.exp(row[:4])
    assert rest == pytest.approx(weights[2:].sum() / weights.sum())
    np.testing.assert_allclose(probs, weights[:2] / weights.sum())
