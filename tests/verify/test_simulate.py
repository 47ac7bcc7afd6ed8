"""Simulated acceptance has the profile that was asked for, and says so."""

from __future__ import annotations

import logging

import pytest
import torch

from sglang_dspine.errors import FlagError
from sglang_dspine.verify.decide import Decision
from sglang_dspine.verify.simulate import Simulation, read_profile


def test_accepted_lengths_have_the_profiles_mean():
    torch.manual_seed(0)
    n, w, profile = 4000, 4, (0.8, 0.5)
    simulation = Simulation(profile, 16, "cpu")
    tokens = torch.arange(n * w).view(n, w)
    bonus = torch.full((n,), 9)
    decision = simulation(tokens, Decision(torch.zeros(n, dtype=torch.int64), bonus, tokens))
    assert decision.commit_lens.float().mean() == pytest.approx(1 + 0.8 + 0.4 + 0.2, abs=0.05)
    last = decision.out_tokens.gather(1, decision.accepted[:, None])[:, 0]
    assert torch.equal(last, bonus)


def test_plain_decode_accepts_nothing():
    tokens = torch.tensor([[7]])
    decision = Simulation((1.0,), 8, "cpu")(tokens, Decision(torch.tensor([0]), torch.tensor([3]), tokens))
    assert decision.commit_lens.tolist() == [1] and decision.out_tokens.tolist() == [[3]]


def test_it_is_off_by_default_and_loud_when_on(caplog):
    assert read_profile("") == ()
    with caplog.at_level(logging.WARNING):
        assert read_profile("0.8, 0.9") == (0.8, 0.9)
    assert "SIMULATED" in caplog.text


@pytest.mark.parametrize("text", ["0.8,x", "1.2", "-0.1", "nan"])
def test_what_is_no_probability_is_refused(text):
    with pytest.raises(FlagError, match="probabilities from 0 to 1"):
        read_profile(text)
