"""Samples and conditional laws for E4 from a running server."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sglang_dspine.errors import DSpineError
from sglang_dspine.exactness.cuts import cut_is_open
from sglang_dspine.exactness.endpoint import Endpoint, TopRow
from sglang_dspine.exactness.filters import Order, Sampling
from sglang_dspine.exactness.laws import Laws, law_from_logprobs
from sglang_dspine.exactness.samples import Cells, Samples

Node = tuple[int, tuple[int, ...]]  # prompt, prefix


def draw(
    endpoint: Endpoint,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    *,
    requests: int,
    length: int,
    progress: Callable[[], None] = lambda: None,
) -> tuple[Samples, float | None]:
    """`requests` sequences of `length` tokens, prompts in turn; and the mean accepted length, if reported."""
    params = {**sampling.params(), "max_new_tokens": length, "ignore_eos": True}

    def one(i: int) -> tuple[list[int], float | None]:
        generation = endpoint.generate(prompts[i % len(prompts)], params)
        progress()
        return generation.ids, generation.meta.get("spec_accept_length")

    results = endpoint.map(one, range(requests))
    tokens = np.full((requests, length), -1, np.int64)
    for i, (ids, _) in enumerate(results):
        tokens[i, : len(ids)] = ids
    accepted = [a for _, a in results if a]
    mean = sum(accepted) / len(accepted) if accepted else None
    return Samples(np.arange(requests) % len(prompts), tokens), mean


def rows_of_cells(
    endpoint: Endpoint,
    prompts: Sequence[Sequence[int]],
    cells: Cells,
    *,
    top: int,
    progress: Callable[[], None] = lambda: None,
) -> list[TopRow]:
    """Teacher-forced row of the target for every cell; one re-score serves all prefixes of a sequence."""
    wanted: list[Node] = list(zip(cells.prompt.tolist(), cells.prefix, strict=True))
    rows: dict[Node, TopRow] = {}

    def score(node: Node) -> dict[Node, TopRow]:
        prompt, prefix = node
        ids = [*prompts[prompt], *prefix]
        first = len(prompts[prompt])
        # One more token, whichever: a row is returned for each token it predicts, and the last row is wanted too.
        scored = endpoint.score([*ids, ids[-1]], first, top=top)
        progress()
        return {(prompt, prefix[:k]): row for k, row in enumerate(scored.top)}

    for found in endpoint.map(score, deepest(wanted)):
        rows |= found
    return [rows[node] for node in wanted]


def laws_of_rows(
    rows: Sequence[TopRow], sampling: Sampling, *, vocab_size: int | None = None, order: Order = "joint"
) -> Laws:
    """Law of every row."""
    return Laws.stack([law_from_logprobs(*_columns(row), sampling, order=order, vocab_size=vocab_size) for row in rows])


def open_rows(
    rows: Sequence[TopRow], sampling: Sampling, rounding: float, *, vocab_size: int | None = None
) -> np.ndarray:
    """Mask [S] of the rows that rounding may cut elsewhere."""
    found = [cut_is_open(_columns(row)[0], sampling, rounding, vocab_size=vocab_size) for row in rows]
    return np.array(found, bool)


def deepest(nodes: Sequence[Node]) -> list[Node]:
    """The nodes that are no prefix of another one: scoring them gives the rows of all."""
    covered: set[Node] = set()
    kept = []
    for prompt, prefix in sorted(nodes, key=lambda node: -len(node[1])):
        if (prompt, prefix) not in covered:
            kept.append((prompt, prefix))
            covered |= {(prompt, prefix[:k]) for k in range(len(prefix) + 1)}
    return kept


def _columns(row: TopRow) -> tuple[np.ndarray, np.ndarray]:
    logprobs, ids = np.array([lp for lp, _ in row]), np.array([token for _, token in row])
    if not np.isfinite(logprobs[0]):
        raise DSpineError("a re-scored row has no finite logprob; expected the target's row")
    return logprobs, ids
