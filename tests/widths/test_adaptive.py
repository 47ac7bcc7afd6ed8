"""The adaptive policy on simulated text with injected step costs: never far from the better of plain and fixed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise

import pytest

from sglang_dspine.errors import DSpineError
from sglang_dspine.widths.acceptance import expected_length
from sglang_dspine.widths.adaptive import AdaptivePolicy
from sglang_dspine.widths.policy import TablePolicy
from sglang_dspine.widths.step_cost import StepCost
from sglang_dspine.widths.table import SpsTable, constant

WIDTHS = (1, 2, 4, 8, 12, 16)
CODE, PROSE, NOISE = [0.85] * 15, [0.55] * 15, [0.05] * 15


def step_ms(batch: int, width: int) -> float:
    """A round: fixed part, a part per verified row once the GPU is busy, and a drafter that plain decode leaves out."""
    draft = 4.0 + 0.02 * batch * width if width > 1 else 0.0
    return 20.0 + 0.09 * max(batch * width - 16, 0) + draft


BATCHES = (1, 2, 4, 8, 16, 32)
COST = StepCost(BATCHES, WIDTHS, tuple(tuple(step_ms(b, w) for w in WIDTHS) for b in BATCHES))
TABLE = SpsTable((16, 16, 12, 8), {"gpu": "none", "source": "a test"}, COST, acceptance=(0.8, 0.8, 0.8))


@dataclass
class Run:
    milliseconds: float
    switches: int
    widths: list[int]


def serve(policy, text, batch: int, seed: int = 0, lag: int = 1) -> Run:
    """Rounds of `batch` equal requests through `text`, a list of (profile, tokens of one request); outcomes reach the
    policy `lag` rounds late, as under the overlap schedule."""
    draw, spent, widths, waiting = random.Random(seed), 0.0, [], []
    for profile, tokens in text:
        emitted = 0.0
        while emitted < tokens:
            width = policy.choose(batch)
            accepted = [accept(draw, profile, width) for _ in range(batch)]
            waiting.append((batch, width, accepted))
            if len(waiting) > lag:
                policy.note(*waiting.pop(0))
            spent += step_ms(batch, width)
            emitted += 1 + sum(accepted) / batch
            widths.append(width)
    return Run(spent, sum(a != b for a, b in pairwise(widths)), widths)


def accept(draw: random.Random, profile, width: int) -> int:
    count = 0
    while count < width - 1 and draw.random() < profile[count]:
        count += 1
    return count


TEXTS = {
    "code": [(CODE, 6000)],
    "prose": [(PROSE, 4000)],
    "noise": [(NOISE, 3000)],
    "code, then noise": [(CODE, 3000), (NOISE, 2000)],
    "noise, then code": [(NOISE, 2000), (CODE, 3000)],
    "code, noise, prose, code": [(CODE, 2000), (NOISE, 1500), (PROSE, 1500), (CODE, 2000)],
}


@pytest.mark.parametrize("batch", [1, 4, 16])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_never_more_than_3_percent_below_the_better_of_plain_and_fixed(text, batch):
    fixed = TABLE.width_of(batch)
    plain = serve(TablePolicy(constant(1, "plain")), text, batch).milliseconds
    best = min(plain, serve(TablePolicy(constant(fixed, "fixed")), text, batch).milliseconds)
    assert serve(AdaptivePolicy(TABLE, WIDTHS), text, batch).milliseconds <= 1.03 * best


def test_a_text_that_turns_is_served_faster_than_by_either():
    text, batch = TEXTS["code, then noise"], 16
    ends = [serve(TablePolicy(constant(w, "fixed")), text, batch).milliseconds for w in (1, TABLE.width_of(batch))]
    assert serve(AdaptivePolicy(TABLE, WIDTHS), text, batch).milliseconds < 0.95 * min(ends)


@pytest.mark.parametrize("profile", [CODE, PROSE, NOISE])
@pytest.mark.parametrize("batch", [1, 8, 32])
def test_a_steady_workload_is_not_flipped_to_and_fro(profile, batch):
    policy = AdaptivePolicy(TABLE, WIDTHS)
    serve(policy, [(profile, 4000)], batch)
    settled = policy.switches
    serve(policy, [(profile, 8000)], batch, seed=1)
    assert policy.switches - settled <= 2


def test_the_width_settles_on_what_the_profile_is_worth():
    for batch in (1, 16):
        policy = AdaptivePolicy(TABLE, WIDTHS)
        last = serve(policy, [(PROSE, 4000)], batch).widths[-1]
        rates = {w: expected_length(PROSE, w) / step_ms(batch, w) for w in WIDTHS}
        assert rates[last] > 0.94 * max(rates.values())


def test_plain_decode_is_probed_ever_more_seldom():
    run = serve(policy := AdaptivePolicy(TABLE, WIDTHS), [(NOISE, 3000)], 16)
    bursts = [len(b) for b in "".join("p" if w == 1 else " " for w in run.widths).split()]
    assert bursts[-2] > bursts[0] and policy.report()["probes"] >= 3
    assert sum(w == 1 for w in run.widths) > 0.9 * len(run.widths)


def test_ranks_that_see_the_same_rounds_choose_the_same_widths():
    runs = [serve(AdaptivePolicy(TABLE, WIDTHS), TEXTS["code, noise, prose, code"], 4).widths for _ in range(2)]
    assert runs[0] == runs[1]


def test_without_width_1_among_the_candidates_it_never_stops_drafting():
    assert min(serve(AdaptivePolicy(TABLE, (4, 8, 16)), [(NOISE, 500)], 16).widths) == 4


def test_a_table_without_step_times_is_refused_with_the_way_out():
    with pytest.raises(DSpineError, match=r"tune_sps\.py"):
        AdaptivePolicy(SpsTable((16,), where="sps.json"), (1, 16))


def test_a_candidate_that_was_not_measured_is_named():
    with pytest.raises(DSpineError, match=r"\[3\]"):
        AdaptivePolicy(TABLE, (1, 3))


def test_a_forced_width_that_is_no_candidate_teaches_nothing():
    policy = AdaptivePolicy(TABLE, (1, 4, 8))
    before = policy.report()["acceptance"]
    policy.note(2, 16, [15, 0])
    assert policy.report()["acceptance"] == before and len(before) == 7
