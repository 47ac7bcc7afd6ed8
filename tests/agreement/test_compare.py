"""Shares, accepted lengths and the interval of their ratio."""

import pytest
import torch

from sglang_dspine.agreement.captures import Captures, Text
from sglang_dspine.agreement.compare import compare, ratio_interval
from sglang_dspine.agreement.draft import Anchor, Drafted

TOKENS = torch.arange(40)


def captures(written: int = 0, texts: int = 2) -> Captures:
    whole = tuple(Text(torch.zeros(40, 4), TOKENS + 100 * i, written) for i in range(texts))
    return Captures(whole, torch.zeros(1, 1), torch.zeros(1, 1), torch.zeros(1), "made up")


def drafted(*blocks) -> Drafted:
    """Tokens row by row; the first candidate is the token, the second 900 + row."""
    tokens = torch.tensor(blocks)
    other = 900 + torch.arange(tokens.shape[1]).expand_as(tokens)
    return Drafted(torch.stack([tokens, other], -1), tokens)


def test_shares_are_counted_by_hand():
    before, after = drafted([1, 2, 3], [101, 102, 103]), drafted([1, 2, 7], [8, 102, 103])
    found = compare(captures(), [Anchor(0, 0), Anchor(1, 0)], before, after)
    assert (found.texts, found.blocks, found.rows) == (2, 2, 6)
    assert found.top1 == found.proposals == pytest.approx(4 / 6) and found.candidates == pytest.approx(10 / 12)
    assert found.leading == pytest.approx((2 + 0) / 2)


def test_accepted_length_is_one_more_than_the_leading_proposals_that_are_the_text():
    before = drafted([6, 7, 8], [120, 7, 8])  # behind places 5 and 19: text goes on 6 7 8 and 120 121 122
    after = drafted([6, 0, 8], [0, 121, 122])
    found = compare(captures(), [Anchor(0, 5), Anchor(1, 19)], before, after).acceptance
    assert (found.before, found.after) == ((4 + 2) / 2, (2 + 1) / 2)
    assert found.ratio == pytest.approx(0.5) and found.low <= 0.5 <= found.high


def test_a_checkpoint_agrees_with_itself_and_nothing_widens_the_interval():
    same = drafted([6, 7, 0], [106, 0, 0])
    found = compare(captures(), [Anchor(0, 5), Anchor(1, 5)], same, same)
    assert found.candidates == found.top1 == found.proposals == 1.0 and found.leading == 3.0
    assert (found.acceptance.ratio, found.acceptance.low, found.acceptance.high) == (1.0, 1.0, 1.0)


def test_without_text_there_is_no_accepted_length():
    same = drafted([6, 7, 0])
    assert compare(captures(written=40), [Anchor(0, 39)], same, same).acceptance is None


def test_one_text_gives_no_interval():
    one = Captures(captures().texts[:1], *(None,) * 3, "one")
    same = drafted([6, 7, 0], [106, 0, 0])
    found = compare(one, [Anchor(0, 5), Anchor(0, 6)], same, same).acceptance
    assert found.ratio == 1.0 and found.low is found.high is None


def test_whole_texts_are_resampled_because_blocks_of_one_text_are_alike():
    random = torch.Generator().manual_seed(1)
    of_text = torch.arange(10).repeat_interleave(50)
    before = torch.full((500,), 4.0)
    after = before + torch.randn(10, generator=random)[of_text] + 0.1 * torch.randn(500, generator=random)
    low, high = ratio_interval(before, after, of_text)
    alone_low, alone_high = ratio_interval(before, after, torch.arange(500))
    assert high - low > 4 * (alone_high - alone_low)


@pytest.mark.parametrize("texts", [8, 16])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(texts):
    """Eight texts are what `convert` has by default: there a plain percentile interval holds it 88 times of 100."""
    random, hits = torch.Generator().manual_seed(2), 0
    for _ in range(400):
        effect = 0.95 + 0.1 * torch.randn(texts, generator=random)
        before = 2 + 4 * torch.rand(texts, generator=random)
        low, high = ratio_interval(before, before * effect, torch.arange(texts))
        hits += low <= 0.95 <= high
    assert 0.92 < hits / 400 <= 0.98
