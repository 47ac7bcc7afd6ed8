"""The report of E4: all settings' tests corrected together, and beside them the power the same tests have."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context

from sglang_dspine.exactness.distribution import (
    USUAL,
    Family,
    Outcome,
    judge_against_control,
    judge_against_law,
)
from sglang_dspine.exactness.laws import Laws
from sglang_dspine.exactness.power import PLANTS, Power, power
from sglang_dspine.exactness.report import Report, Table
from sglang_dspine.exactness.samples import Samples, cells_of, frequencies
from sglang_dspine.exactness.statistics import Test
from sglang_dspine.exactness.workload import Workload, observed

ENOUGH = 0.95  # power a report must have to mean anything
MIN_REQUESTS = 9000  # of each setting


@dataclass(frozen=True)
class Setting:
    """One sampling setting, judged."""

    label: str
    requests: int
    tests: list[Test]  # positions 2 and later
    reference: list[Test]  # position 1, which no draft decides: does the reference itself hold?
    workload: Workload  # what the power is simulated on
    against: str  # "law" or "control"
    left_out: float = 0.0  # share of the tokens drawn whose law hangs on rounding


def against_law(
    label: str,
    samples: Samples,
    laws: Laws,
    first_laws: Laws,
    accepted_length: float | None = None,
    family: Family = USUAL,
    first: Samples | None = None,
) -> Setting:
    """Judge a setting against exact conditionals; `laws` of cells_of(samples), `first_laws` of position 1 of `first`,
    which is that of the samples unless some of it is not to be judged."""
    cells = cells_of(samples)
    tests = judge_against_law(samples, lambda _: laws, family, f"{label}: ")
    first = first or Samples(samples.prompt, samples.tokens[:, :1])
    reference = judge_against_law(first, lambda _: first_laws, family, f"{label}: first token, ", first=1)
    workload = observed(cells, laws, samples, accepted_length=accepted_length)
    return Setting(label, len(samples), tests, reference, workload, "law")


def against_control(
    label: str,
    samples: Samples,
    control: Samples,
    accepted_length: float | None = None,
    family: Family = USUAL,
) -> Setting:
    """Judge a setting against plain decode. The power is simulated on both arms' frequencies: rare prefixes look
    certain there, which errs on the weak side."""
    tests = judge_against_control(samples, control, family, f"{label}: ")
    one, other = (Samples(s.prompt, s.tokens[:, :1]) for s in (samples, control))
    reference = judge_against_control(one, other, family, f"{label}: first token, ", first=1)
    both = samples.joined(control)
    cells = cells_of(both)
    workload = observed(cells, frequencies(both, cells), both, accepted_length=accepted_length)
    workload = replace(workload, requests=len(samples))
    return Setting(label, len(samples), tests, reference, workload, "control")


def report(
    settings: list[Setting], subject: str, *, runs: int = 100, alpha: float = 0.05, processes: int = 1
) -> Report:
    """The verdict: no rejection, a reference that holds, and power enough that this means something."""
    outcome = Outcome.of([t for s in settings for t in s.tests], alpha)
    reference = Outcome.of([t for s in settings for t in s.reference], alpha)
    total = len(outcome.tests)
    powers = _powers(settings, runs=runs, report_tests=total, alpha=alpha, processes=processes)
    weakest = min((p.share for _, _, p in powers), default=0.0)
    small = [s.label for s in settings if s.requests < MIN_REQUESTS]
    lines = [
        f"{total} tests, {len(outcome.rejections)} rejections, smallest corrected p {outcome.smallest:.3g}",
        f"power at this size: at least {weakest:.0%} for every planted wrong q ({runs} simulated reports each)",
    ]
    if reference.rejections:
        lines.append(
            f"the reference does not hold for the first token ({len(reference.rejections)} rejections), which no draft "
            "decides: these laws or this control are not this server's target"
        )
    out = max((s.left_out for s in settings), default=0.0)
    if out:
        lines.append(f"left out because rounding decides what a cut keeps: at most {out:.1%} of a setting's tokens")
    if weakest < ENOUGH:
        lines.append(f"power below {ENOUGH:.0%}: sample more, or prompts whose next tokens are less certain")
    if small:
        lines.append(f"fewer than {MIN_REQUESTS} requests: {', '.join(small)}")
    power_table = Table(
        "power (share of simulated reports that reject a planted wrong q)",
        ("setting", "planted", "caught", "runs", "power", "at least (95 %)"),
        [(label, name, p.caught, p.runs, p.share, p.at_least) for label, name, p in powers],
    )
    facts = {
        "tests": total,
        "rejections": len(outcome.rejections),
        "smallest_corrected_p": outcome.smallest,
        "weakest_power": weakest,
        "requests": {s.label: s.requests for s in settings},
        "left_out": {s.label: s.left_out for s in settings},
    }
    passed = not outcome.rejections and not reference.rejections and weakest >= ENOUGH
    return Report("E4", subject, passed, tuple(lines), (_likeliest_wrong(outcome), power_table), facts)


def _powers(settings: list[Setting], *, processes: int, **options) -> list[tuple[str, str, Power]]:
    """Power of every setting against every planted wrong q."""
    asked = [(s, name) for s in settings for name in PLANTS]  # a Setting holds functions, which no process takes over
    with ProcessPoolExecutor(processes, get_context("spawn")) if processes > 1 else nullcontext() as pool:
        run = map if pool is None else pool.map
        job = partial(_power, **options)
        found = run(job, [s.workload for s, _ in asked], [s.against for s, _ in asked], [name for _, name in asked])
        return [(s.label, name, p) for (s, name), p in zip(asked, found, strict=True)]


def _power(workload: Workload, against: str, name: str, **options) -> Power:
    return power(workload, PLANTS[name], against=against, **options)


def _likeliest_wrong(outcome: Outcome, shown: int = 10) -> Table:
    ranked = sorted(zip(outcome.tests, outcome.corrected, strict=True), key=lambda pair: pair[0].p)[:shown]
    rows = [(t.name, t.n, t.df, t.statistic, t.p, float(c)) for t, c in ranked]
    return Table("smallest p-values", ("test", "n", "df", "chi-squared", "p", "corrected p"), rows)
