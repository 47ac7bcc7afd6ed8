"""Rounds are counted as a server counts them."""

import torch

from demo.rounds import accepted_lengths, mean, repeated

TEXT = torch.arange(200).repeat(2, 1)


def proposer(right: int):
    """Proposals whose first `right` tokens are those of TEXT."""

    def propose(text, anchor_at):
        proposals = anchor_at[:, None] + torch.arange(1, 16)
        proposals[:, right:] = -1
        return proposals

    return propose


def test_a_perfect_drafter_gets_the_block_and_a_useless_one_the_bonus():
    assert set(accepted_lengths(proposer(15), TEXT, 20, 16)[0]) == {16}
    assert set(accepted_lengths(proposer(0), TEXT, 20, 16)[1]) == {1}


def test_the_next_anchor_is_the_bonus_token():
    seen = []

    def propose(text, anchor_at):
        seen.append(int(anchor_at[0]))
        return proposer(4)(text, anchor_at)

    accepted_lengths(propose, TEXT, 20, 16)
    assert seen[:4] == [20, 25, 30, 35]


def test_no_round_is_cut_by_the_end_of_the_text():
    lengths = accepted_lengths(proposer(15), TEXT, 180, 16)
    assert lengths == [[16], [16]] and mean(lengths) == 16


def test_repetition_tells_a_loop_from_fresh_text():
    assert repeated(torch.arange(100)) == 0
    assert repeated(torch.arange(8).repeat(20)) > 0.9
