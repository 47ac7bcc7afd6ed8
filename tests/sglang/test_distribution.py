"""Sampled text has the target's distribution (E4): real SGLang in float32 against exact laws from transformers.

The pair is good by construction (`tests/exactness/bigram_pair.py`): q is near p and differs from it, so a wrong q
shows. Positions 2 and later only; the first token is the prefill's.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from sglang_dspine.exactness.__main__ import parse_setting
from sglang_dspine.exactness.sampled_report import MIN_REQUESTS, against_law, report
from sglang_dspine.exactness.samples import Samples, cells_of
from sglang_dspine.verify import decide as decision

from ..exactness.bigram_pair import ACTIVE, bigram
from ..exactness.engine_samples import draw, laws_of

MIXED, MIN_P = "temperature=0.7 top_k=6 top_p=0.95", "temperature=1.2 min_p=0.1"
PROMPTS = [[ACTIVE[i], ACTIVE[(3 * i + 1) % 8]] for i in range(2)]
LENGTH = 5
# At full size one prompt each, chosen by `exactness.choose` from all 64 pairs of active tokens, and as many requests as
# simulation wanted for a power near one: a filtered law says less about q, and so does a cold one.
FULL = {
    "temperature=1.0": ([66, 69], MIN_REQUESTS),
    MIXED: ([72, 70], 3 * MIN_REQUESTS),
    "temperature=1.5 top_p=0.9": ([66, 69], 2 * MIN_REQUESTS),
    "temperature=0.2": ([67, 65], 3 * MIN_REQUESTS),
}
FULL_LENGTH = 8
# Simulated reports for each planted q and setting; 60 of 60 is a power of at least 95 %, with 95 % confidence.
POWER_RUNS = int(os.environ.get("DSPINE_E4_POWER_RUNS", "20"))


@pytest.fixture(scope="module")
def server(engines):
    return bigram().served(engines, max_running_requests=128, max_total_tokens=8192)


def judged(server, label: str, requests: int, prompts: list[list[int]] = PROMPTS, length: int = LENGTH):
    sampling = parse_setting(label)
    samples, accepted = draw(server, prompts, sampling, requests, length)
    first = Samples(samples.prompt, samples.tokens[:, :1])
    laws, first_laws = (
        laws_of(bigram().target, prompts, cells, sampling) for cells in (cells_of(samples), cells_of(first, 1))
    )
    return against_law(label, samples, laws, first_laws, accepted)


@pytest.mark.parametrize("label", [MIXED, MIN_P])
def test_a_small_sample_is_not_rejected_and_blocks_were_accepted(server, label):
    sampling = parse_setting(label)
    assert draw(server, PROMPTS, sampling, 32, LENGTH)[1] > 1.5
    found = report([judged(server, label, 600)], "DSPINE", runs=1, alpha=0.001)
    assert found.facts["tests"] >= 5 and found.facts["rejections"] == 0, found.lines


@pytest.mark.full
@pytest.mark.timeout(1500)
def test_every_setting_at_full_size_passes_with_power(server, capsys):
    settings = [judged(server, label, requests, [prompt], FULL_LENGTH) for label, (prompt, requests) in FULL.items()]
    found = report(settings, "DSPINE", runs=POWER_RUNS, processes=2, alpha=0.01)
    with capsys.disabled():
        print("\nE4, CPU:", "; ".join(found.lines))
        print(
            "\n".join(
                f"  {label}: {name}: {caught} of {runs}" for label, name, caught, runs, *_ in found.tables[1].rows
            )
        )
    assert found.passed, found.lines


@pytest.mark.full
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_server_whose_q_is_ten_percent_off_is_rejected(server, monkeypatch, factor):
    """The planted fault itself, not its simulation: the acceptor is told another q than proposals were drawn from."""
    original = decision.accept_sampled

    def told_wrong(tokens, probs, candidates, q, *rest):
        wrong = q.clamp_min(1e-30).pow(1 / factor)
        return original(tokens, probs, candidates, wrong / wrong.sum(-1, keepdim=True), *rest)

    monkeypatch.setattr(decision, "accept_sampled", told_wrong)
    found = report([judged(server, "temperature=1.0", MIN_REQUESTS)], "DSPINE", runs=1)
    assert found.facts["rejections"] > 0
    assert not np.isnan(found.facts["smallest_corrected_p"])
