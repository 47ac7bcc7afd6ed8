"""E3, audit: is every token of a running endpoint the target's own top-1, given the text before it?

Greedy text is generated, then re-scored by the same server with the cache off. A token's gap is the re-score's best
logprob minus the token's: 0 for a top-1 (ties included). Rounding differs between decode and a re-score on a GPU,
so plain decode of the same prompts, re-scored the same way, says which gaps mean nothing: the control's largest.
Of two arms alike, each holds the largest gap equally often: a control as small as the test fails every other sound
server. So the control decodes the prompts several times, each time with another number of requests in flight.
Without a control only gaps of 0 pass. (SGLang 0.5.23 cannot switch speculation off for one request, so the control is
a second server.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sglang_dspine.exactness.endpoint import Endpoint, EndpointError
from sglang_dspine.exactness.report import Report, Table

SHOWN = 20  # offending tokens listed
ENOUGH_TO_VARY = 100  # tokens of several prompts among which a sound target writes two that differ


@dataclass(frozen=True)
class Token:
    """One emitted token beside the re-score's choice."""

    prompt: int  # index in the prompt file
    position: int  # 1 is the first generated token
    token: int
    top1: int
    gap: float  # in nats


@dataclass(frozen=True)
class Arm:
    """All emitted tokens of one server."""

    tokens: list[Token]
    accepted_length: float | None  # mean over requests, bonus included; None on a server that does not speculate

    @property
    def differing(self) -> list[Token]:
        """Tokens that are not the top-1 of their row."""
        return [t for t in self.tokens if t.gap > 0]

    @property
    def largest_gap(self) -> float:
        return max((t.gap for t in self.tokens), default=0.0)


def audit(
    endpoint: Endpoint,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int = 64,
    ignore_eos: bool = False,
    control: Sequence[Endpoint] = (),
    progress: Callable[[], None] = lambda: None,
) -> Report:
    """Audit `endpoint` on prompts given as token ids.

    control: one endpoint a pass of plain decode, of differing concurrency. `progress` is called once a finished prompt
    and pass.
    """
    params = {"temperature": 0, "max_new_tokens": max_new_tokens, "ignore_eos": ignore_eos}
    arm = run_arm(endpoint, prompts, params, progress)
    passes = [run_arm(plain, prompts, params, progress) for plain in control]
    plain = Arm([token for found in passes for token in found.tokens], None) if passes else None
    return judge(arm, plain, endpoint.url)


def run_arm(endpoint: Endpoint, prompts: Sequence[Sequence[int]], params: dict, progress: Callable[[], None]) -> Arm:
    """Generate and re-score every prompt on one server."""

    def one(item: tuple[int, Sequence[int]]) -> tuple[list[Token], float | None]:
        index, prompt = item
        generation = endpoint.generate(prompt, params)
        score = endpoint.score([*prompt, *generation.ids], len(prompt))
        progress()
        rows = zip(generation.ids, score.logprobs, score.top, strict=True)
        tokens = [_token(index, k, *row) for k, row in enumerate(rows, start=1)]
        return tokens, generation.meta.get("spec_accept_length")

    results = endpoint.map(one, enumerate(prompts))
    lengths = [length for _, length in results if length]
    tokens = [t for found, _ in results for t in found]
    if not tokens:
        raise EndpointError(f"{endpoint.url}: no prompt produced a token; nothing to audit")
    if len(prompts) > 1 and len(tokens) >= ENOUGH_TO_VARY and len({t.token for t in tokens}) == 1:
        raise EndpointError(
            f"{endpoint.url}: all {len(tokens)} tokens are token {tokens[0].token}; expected a text. Its weights or "
            "their kernels are broken, and nothing can be audited"
        )
    return Arm(tokens, sum(lengths) / len(lengths) if lengths else None)


def judge(arm: Arm, control: Arm | None, subject: str) -> Report:
    """The verdict on one arm, given plain decode's."""
    allowed = 0.0 if control is None else control.largest_gap
    within = [t for t in arm.differing if t.gap <= allowed]
    beyond = sorted((t for t in arm.differing if not t.gap <= allowed), key=lambda t: -t.gap)
    lines = [f"{len(arm.differing)} of {len(arm.tokens)} differ"]
    if control is None:
        lines.append("no control: only the exact top-1 passes; name a plain server with --control-url")
    else:
        lines.append(
            f"{len(within)} within the control's gap {allowed:.4g} "
            f"({len(control.differing)} of {len(control.tokens)} of the control's own tokens differ)"
        )
    if beyond:
        lines.append(f"{len(beyond)} beyond it, the largest gap is {beyond[0].gap:.4g}")
    length = arm.accepted_length
    lines.append(
        "accepted length not reported: did this server speculate?"
        if length is None
        else f"accepted length {length:.2f}"
    )
    columns = ("prompt", "position", "token", "top-1", "gap")
    rows = [(t.prompt, t.position, t.token, t.top1, t.gap) for t in beyond[:SHOWN]]
    facts = {
        "tokens": len(arm.tokens),
        "differ": len(arm.differing),
        "within_control_gap": len(within),
        "beyond": len(beyond),
        "largest_gap": arm.largest_gap,
        "control_gap": None if control is None else allowed,
        "control_tokens": None if control is None else len(control.tokens),
        "accepted_length": length,
    }
    tables = (Table(f"largest of the {len(beyond)} tokens beyond", columns, rows),) if rows else ()
    return Report("E3", subject, not beyond, tuple(lines), tables, facts)


def _token(prompt: int, position: int, token: int, logprob: float, top: list[tuple[float, int]]) -> Token:
    best, top1 = top[0]
    gap = best - logprob
    if gap != gap or gap < 0:
        gap = float("inf")  # a row that cannot be ranked passes for nothing
    return Token(prompt, position, token, token if gap == 0 else top1, gap)
