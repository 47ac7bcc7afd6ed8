"""The K best tokens of a row."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sglang_dspine.errors import DSpineError
from sglang_dspine.reference import top_candidates

from .cases import few


@few
@given(seed=st.integers(0, 999), top_k=st.integers(1, 30), padding=st.integers(0, 5))
def test_candidates_are_the_best_scores_with_ties_to_the_lowest_id(seed, top_k, padding):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randint(-1, 2, (2, 3, 4), generator=generator).double()  # few distinct scores: many ties
    head = torch.randint(-1, 2, (30 + padding, 4), generator=generator).double()
    found = top_candidates(hidden, head, top_k, 30)
    scores = (hidden @ head.T)[..., :30]
    for block in range(2):
        for row in range(3):
            values = scores[block, row].tolist()
            expected = sorted(range(30), key=lambda v: (-values[v], v))[:top_k]
            assert found[block, row].tolist() == expected


def test_padded_vocabulary_never_wins():
    hidden, head = torch.ones(1, 2, 3), -torch.ones(12, 3)
    head[10:] = 100  # padding that would score highest
    assert top_candidates(hidden, head, 10, 10).max() == 9


@pytest.mark.parametrize(("top_k", "vocabulary"), [(0, 10), (11, 10), (4, 13)])
def test_more_candidates_than_tokens_are_refused(top_k, vocabulary):
    with pytest.raises(DSpineError, match="top_k"):
        top_candidates(torch.ones(1, 1, 3), torch.ones(12, 3), top_k, vocabulary)
