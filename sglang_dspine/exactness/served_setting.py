"""One setting of E4 on running servers: choose prompts by a pilot, draw, and judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sglang_dspine.errors import DSpineError
from sglang_dspine.exactness.choose import choose
from sglang_dspine.exactness.endpoint import Endpoint
from sglang_dspine.exactness.filters import Sampling
from sglang_dspine.exactness.laws import Laws
from sglang_dspine.exactness.sampled_report import Setting, against_control, against_law
from sglang_dspine.exactness.samples import Samples, cells_of
from sglang_dspine.exactness.served_samples import draw, laws_of_rows, open_rows, rows_of_cells


@dataclass(frozen=True)
class Plan:
    """How much of a setting is drawn, and from how many prompts."""

    requests: int = 9000
    length: int = 6  # tokens per request, the first of which no draft decides
    pilot: int = 0  # requests drawn over all prompts to choose some of them; 0 takes all
    keep: int = 6  # prompts chosen
    top: int = 64  # logprobs per row of the exact laws; never above the vocabulary
    vocab_size: int | None = None  # closes a law's tail at temperatures above 1
    rounding: float = 0.0  # of a log-probability; rows whose cut hangs on it are left out, and what follows them


def judge_setting(
    server: Endpoint,
    control: Endpoint | None,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    label: str,
    plan: Plan,
    progress: Callable[[], None] = lambda: None,
) -> Setting:
    """Draw `plan.requests` from `server` and judge them against its exact laws, or against `control`."""

    def sample(endpoint: Endpoint, chosen: Sequence[Sequence[int]], requests: int) -> tuple[Samples, float | None]:
        return draw(endpoint, chosen, sampling, requests=requests, length=plan.length, progress=progress)

    if plan.pilot and plan.keep < len(prompts):
        pilot, laws = settled(server, prompts, sample(control or server, prompts, plan.pilot)[0], sampling, plan)
        kept = choose(cells_of(pilot), laws, plan.keep, plan.requests)
        prompts = [prompts[i] for i in kept]
    samples, accepted = sample(server, prompts, plan.requests)
    if control is not None:
        return against_control(label, samples, sample(control, prompts, plan.requests)[0], accepted)
    drawn = int((samples.tokens[:, 1:] >= 0).sum())
    start = replace(samples, tokens=samples.tokens[:, :1])
    samples, laws = settled(server, prompts, samples, sampling, plan)
    start, first_laws = settled(server, prompts, start, sampling, plan, first=1)
    judged = int((samples.tokens[:, 1:] >= 0).sum())
    if not judged:
        raise DSpineError(
            f"{label}: every cut hangs on a rounding of {plan.rounding}; give more prompts or a longer pilot"
        )
    return replace(against_law(label, samples, laws, first_laws, accepted, first=start), left_out=1 - judged / drawn)


def settled(
    server: Endpoint,
    prompts: Sequence[Sequence[int]],
    samples: Samples,
    sampling: Sampling,
    plan: Plan,
    first: int = 2,
) -> tuple[Samples, Laws]:
    """The part of the samples that one law each can judge, and the laws of its cells."""
    cells = cells_of(samples, first)
    rows = rows_of_cells(server, prompts, cells, top=plan.top)
    unsure = open_rows(rows, sampling, plan.rounding, vocab_size=plan.vocab_size)
    laws = laws_of_rows(rows, sampling, vocab_size=plan.vocab_size)
    if not unsure.any():
        return samples, laws
    kept = samples.ended_before(cells, unsure)
    place = {node: s for s, node in enumerate(zip(cells.prompt.tolist(), cells.prefix, strict=True))}
    left = cells_of(kept, first)
    order = [place[node] for node in zip(left.prompt.tolist(), left.prefix, strict=True)]
    return kept, laws.take(np.array(order, np.int64))
