"""Rows for E2 from a running server: logprobs of the rows that decided each token, against an uncached re-score.

Only the top logprobs of a row travel, so a delta is the largest difference over the tokens both lists name (the
emitted one always among them). `accepted` comes from the stream: tokens of one round arrive together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sglang_dspine.exactness.endpoint import Endpoint, EndpointError, TopRow
from sglang_dspine.exactness.teacher_forced import Rows

TOP = 20  # logprobs per row; must not exceed the vocabulary


def served_rows(
    endpoint: Endpoint,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int = 128,
    top: int = TOP,
    progress: Callable[[], None] = lambda: None,
) -> Rows:
    """Generate greedily, re-score, and compare row by row."""
    params = {"temperature": 0, "max_new_tokens": max_new_tokens, "ignore_eos": True}

    def one(prompt: Sequence[int]) -> list[tuple[int, float, float, bool, int]]:
        generation = endpoint.generate(prompt, params, top=top, stream=True)
        score = endpoint.score([*prompt, *generation.ids], len(prompt), top=top)
        progress()
        before = accepted_before(generation.blocks)
        rows = zip(generation.top, score.top, before, strict=True)
        return [(k, *compare_row(u, r), a) for k, (u, r, a) in enumerate(rows, start=1)]

    found = [row for rows in endpoint.map(one, prompts) for row in rows]
    if not found:
        raise EndpointError(f"{endpoint.url}: no rows; every prompt ended at once")
    position, delta, margin, flipped, accepted = zip(*found, strict=True)
    return Rows(np.array(position), np.array(delta), np.array(margin), np.array(flipped), np.array(accepted))


def compare_row(used: TopRow, rescored: TopRow) -> tuple[float, float, bool]:
    """Delta, margin of the re-score, and whether the top-1 differs."""
    of_used = {token: logprob for logprob, token in used}
    both = [abs(logprob - of_used[token]) for logprob, token in rescored if token in of_used]
    delta = max(both) if both and not any(d != d for d in both) else float("inf")
    margin = rescored[0][0] - rescored[1][0] if len(rescored) > 1 else float("inf")
    return delta, margin, used[0][1] != rescored[0][1]


def accepted_before(blocks: Sequence[int]) -> list[int]:
    """For every token, the accepted length of the round before its own; 0 for the first token and the first round.

    The first token arrives alone, from prefill. A server that sends tokens singly gives 1 throughout.
    """
    before: list[int] = []
    for i, size in enumerate(blocks):
        before.extend([blocks[i - 1] if i > 1 else 0] * size)
    return before
