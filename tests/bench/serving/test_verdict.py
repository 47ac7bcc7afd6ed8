"""What is lost is found, what is equal is not called different, what scatters is not quoted."""

from dataclasses import replace

import numpy as np
import pytest

from sglang_dspine.bench.serving.cell import Cell
from sglang_dspine.bench.serving.results import Run
from sglang_dspine.bench.serving.verdict import between, within

USERS = (1, 8, 32)


def simulated(
    rng: np.random.Generator,
    arm: str,
    *,
    speed: float = 1.0,
    length: float = 1.0,
    drift: np.ndarray,
    noise: float = 0.01,
    conversations: int = 24,
) -> list[Cell]:
    """Cells of one arm: `noise` of a cell's own on top of the machine's drift [repetitions]."""
    easy = np.exp(np.random.default_rng(0).normal(0, 0.25, conversations))  # of a text, the same for all arms
    cells = []
    for users in USERS:
        for repetition, shared in enumerate(drift):
            own = speed * np.exp(shared + rng.normal(0, noise))
            rounds = rng.integers(90, 110, conversations)
            mean = 1 + 2.5 * length * easy * np.exp(rng.normal(0, 0.02, conversations))
            tokens = rng.poisson(rounds * mean)
            cells.append(
                Cell(
                    arm=arm, users=users, repetition=repetition, seed=repetition, requests=conversations, failed=0,
                    seconds=1.0, completion_tokens=1, tok_s=100 * own, user_tok_s=40 * own, ttft_ms={}, itl_ms={},
                    stall_ms={}, accepted_length=float(tokens.sum() / rounds.sum()),
                    rounds_of={f"c{i}": (int(t), int(r)) for i, (t, r) in enumerate(zip(tokens, rounds, strict=True))},
                )
            )  # fmt: skip
    return cells


def one_run(seed: int, repetitions: int = 5, noise: float = 0.01, **changes) -> Run:
    """An arm `changed` beside a baseline, on a machine that drifts by some percent."""
    rng = np.random.default_rng(seed)
    drift = rng.normal(0, 0.003, repetitions)
    base = simulated(rng, "base", drift=drift, noise=noise)
    return Run(tuple(base + simulated(rng, "changed", drift=drift, noise=noise, **changes)))


def words(verdicts, measure: str) -> list[str]:
    return [v.word for v in verdicts if v.measure == measure]


def test_a_planted_slowdown_of_a_tenth_is_found_at_every_number_of_users():
    for seed in range(6):
        verdicts = within(one_run(seed, noise=0.004, speed=0.9), "base", "changed")
        assert words(verdicts, "tok/s") == ["slower"] * 3 and all(v.loss for v in verdicts if v.measure == "tok/s")
        assert [v.ratio.value for v in verdicts if v.measure == "tok/s"] == pytest.approx([0.9] * 3, abs=0.02)


def test_a_planted_loss_of_a_tenth_of_what_is_accepted_is_found():
    # the proposals' share of an accepted length of about 3.6 is 2.6, so a tenth of the length is this much of it
    for seed in range(6):
        verdicts = within(one_run(seed, noise=0.004, length=0.86), "base", "changed")
        assert words(verdicts, "accepted length") == ["accepts less"] * 3
        assert [v.ratio.value for v in verdicts if v.measure == "accepted length"] == pytest.approx([0.9] * 3, abs=0.03)


def test_both_losses_are_found_between_two_runs():
    before, after = one_run(1, noise=0.004), one_run(2, noise=0.004, speed=0.9, length=0.86)
    verdicts = [v for v in between(before, after) if v.arm == "changed"]
    assert words(verdicts, "tok/s") == ["slower"] * 3
    assert words(verdicts, "accepted length") == ["accepts less"] * 3
    unchanged = [v.word for v in between(before, after) if v.arm == "base"]
    assert unchanged == ["not different"] * 9


@pytest.mark.full
@pytest.mark.parametrize("form", ["within", "between"])
def test_equal_arms_are_called_different_in_at_most_one_report_of_twenty(form):
    """The level of a whole report: nine tests, corrected together."""
    reports, wrong = 200, 0
    for seed in range(reports):
        if form == "within":
            verdicts = within(one_run(seed), "base", "changed", gate=1.0)
        else:
            verdicts = between(Run(one_run(seed).of("base", 1)), Run(one_run(seed + 5000).of("base", 1)), gate=1.0)
        wrong += any(v.word != "not different" for v in verdicts)
    assert wrong <= 0.05 * reports + 2 * (0.05 * 0.95 * reports) ** 0.5


def test_a_win_behind_a_wide_range_is_kept_and_not_quoted():
    (verdict,) = [v for v in within(one_run(3, noise=0.05, speed=1.5), "base", "changed") if v.measure == "tok/s"][:1]
    assert verdict.word.startswith("not quoted: spread") and verdict.ratio.value > 1.3 and not verdict.loss


def test_accepted_lengths_that_range_widely_are_not_quoted():
    run = one_run(3, noise=0.004, length=0.7)
    low = Run(
        tuple(replace(c, accepted_length=c.accepted_length * (0.9 if c.repetition == 2 else 1)) for c in run.cells)
    )
    assert words(within(run, "base", "changed"), "accepted length") == ["accepts less"] * 3
    assert all(w.startswith("not quoted: spread") for w in words(within(low, "base", "changed"), "accepted length"))


def test_one_repetition_is_shown_and_not_judged():
    verdicts = within(one_run(4, repetitions=1, speed=0.5, length=0.5), "base", "changed")
    for measure in ("tok/s", "accepted length"):
        assert words(verdicts, measure) == ["not quoted: one repetition"] * 3


@pytest.mark.parametrize("arm", ["base", "changed"])
def test_nothing_is_judged_where_requests_failed(arm):
    """Those left over had the server to themselves."""
    run = one_run(5, noise=0.004, speed=1.1)
    broken = Run(tuple(replace(c, failed=10) if c.arm == arm and c.users == 8 else c for c in run.cells))
    for measure in ("tok/s", "tok/s per user", "accepted length"):
        found = words(within(broken, "base", "changed"), measure)
        assert found[1] == "not quoted: 50 of 240 requests failed" and "not quoted" not in found[0]


def test_a_repetition_that_one_arm_lacks_is_left_out_of_the_pairs():
    run = one_run(5, noise=0.004, speed=0.9)
    cut = Run(tuple(c for c in run.cells if not (c.arm == "changed" and c.repetition == 2)))
    assert words(within(cut, "base", "changed"), "tok/s") == ["slower"] * 3
