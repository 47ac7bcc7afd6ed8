"""One streamed answer of a server: its tokens, and when they came."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx

GRAM = 32
_TOKENS_SO_FAR = re.compile(r'"completion_tokens":\s*(\d+)')  # inside a text the quotes would be escaped


@dataclass
class Answer:
    """Times in seconds since the load began; counts as the server states them."""

    conversation: str
    turn: int
    user: int
    start: float
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    first: float | None = None  # arrival of the first tokens
    last: float | None = None
    first_tokens: int = 0  # tokens that came with the first arrival
    gaps: list[tuple[float, int]] = field(default_factory=list)  # seconds since the arrival before, tokens in it
    rounds: int | None = None  # verify rounds; None from a server that does not speculate
    accepted: list[int] = field(default_factory=list)  # rounds by accepted proposals
    widths: list[int] = field(default_factory=list)  # rounds by verify width, if the server says
    repetition: float | None = None
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


async def ask(
    http: httpx.AsyncClient, ids: Sequence[int], sampling: dict[str, Any], answer: Answer, began: float
) -> Answer:
    """Stream the continuation of `ids` into `answer`; what fails is noted there, never raised."""
    body = {"input_ids": list(ids), "sampling_params": sampling, "stream": True}
    final = ""
    try:
        async with http.stream("POST", "/generate", json=body) as response:
            if response.status_code != 200:
                answer.error = f"status {response.status_code}: {(await response.aread())[:300]!r}"
                return answer
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    final = line[6:]
                    _arrived(answer, final, time.perf_counter() - began)
    except httpx.HTTPError as error:
        answer.error = f"{type(error).__name__}: {error}"
        return answer
    _finish(answer, final)
    return answer


def _arrived(answer: Answer, line: str, now: float) -> None:
    counted = _TOKENS_SO_FAR.search(line)
    new = (int(counted[1]) if counted else 0) - answer.completion_tokens
    if new <= 0:
        return
    if answer.first is None:
        answer.first, answer.first_tokens = now, new
    else:
        assert answer.last is not None
        answer.gaps.append((now - answer.last, new))
    answer.last = now
    answer.completion_tokens += new


def _finish(answer: Answer, line: str) -> None:
    """Counts of the last piece of the stream, which carries them all."""
    try:
        whole = json.loads(line)
        meta = whole["meta_info"]
        reason = meta.get("finish_reason") or {}
    except (ValueError, KeyError, TypeError, AttributeError):
        answer.error = f"the stream ended with {line[:200]!r}; expected SGLang's native API"
        return
    if reason.get("type") == "abort":
        answer.error = f"aborted: {reason.get('message', reason)}"
        return
    answer.prompt_tokens, answer.cached_tokens = meta.get("prompt_tokens", 0), meta.get("cached_tokens", 0)
    answer.completion_tokens = meta.get("completion_tokens", answer.completion_tokens)
    if meta.get("spec_verify_ct"):
        answer.rounds = meta["spec_verify_ct"]
        answer.accepted = meta.get("spec_correct_drafts_histogram") or []
        answer.widths = meta.get("spec_cap_lens_histogram") or []
    answer.repetition = repetition(whole.get("output_ids") or [])


def repetition(tokens: Sequence[int], size: int = GRAM) -> float | None:
    """Share of the text's 32-grams that stood in it before. A loop drafts perfectly and looks like record speed."""
    grams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else None
