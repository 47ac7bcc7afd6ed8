"""One setting of E4 on running servers: choose prompts by a pilot, draw, and judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sglang_dspine.exactness.choose import choose
from sglang_dspine.exactness.endpoint import Endpoint
from sglang_dspine.exactness.filters import Sampling
from sglang_dspine.exactness.sampled_report import Setting, against_control, against_law
from sglang_dspine.exactness.samples import Samples, cells_of
from sglang_dspine.exactness.served_samples import draw, laws_of_cells


@dataclass(frozen=True)
class Plan:
    """How much of a setting is drawn, and from how many prompts."""

    requests: int = 9000
    length: int = 6  # tokens per request, the first of which no draft decides
    pilot: int = 0  # requests drawn over all prompts to choose some of them; 0 takes all
    keep: int = 6  # prompts chosen
    top: int = 64  # logprobs per row of the exact laws; never above the vocabulary
    vocab_size: int | None = None  # closes a law's tail at temperatures above 1


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

    def laws(chosen: Sequence[Sequence[int]], samples: Samples, first: int = 2):
        return laws_of_cells(
            server, chosen, cells_of(samples, first), sampling, top=plan.top, vocab_size=plan.vocab_size
        )

    if plan.pilot and plan.keep < len(prompts):
        pilot = sample(control or server, prompts, plan.pilot)[0]
        kept = choose(cells_of(pilot), laws(prompts, pilot), plan.keep, plan.requests)
        prompts = [prompts[i] for i in kept]
    samples, accepted = sample(server, prompts, plan.requests)
    if control is not None:
        return against_control(label, samples, sample(control, prompts, plan.requests)[0], accepted)
    start = replace(samples, tokens=samples.tokens[:, :1])
    return against_law(label, samples, laws(prompts, samples), laws(prompts, start, 1), accepted)
