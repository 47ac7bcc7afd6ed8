"""What transformers says about a text in float32: its top-1 after every token, and the layers a drafter captures.

One forward over the whole text judges every token of it. A text whose every token is the top-1 after the tokens before
it is the greedy text, by induction; and a tie can be told from a mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from .models import transformers_model

ROUNDING = 2e-5  # of a row's largest logit: two float32 implementations add in different orders
TIES: list[str] = []  # every tie met in this run, printed at its end


@dataclass(frozen=True)
class Observation:
    logits: torch.Tensor  # [L, V] after each token
    taps: torch.Tensor  # [L, taps·H] captured layers, concatenated


@dataclass(frozen=True)
class Miss:
    """A token that is not the top-1."""

    at: int  # place in the output
    emitted: int
    best: int
    gap: float  # of the row's largest logit

    @property
    def is_tie(self) -> bool:
        return self.gap <= ROUNDING


def observe(target: str, ids: Sequence[int], layers: Sequence[int] = ()) -> Observation:
    """One float32 forward of transformers over `ids`; layer i's output is hidden_states[i + 1]."""
    return _observe(target, tuple(ids), tuple(layers))


@lru_cache(maxsize=64)
@torch.no_grad()
def _observe(target: str, ids: tuple[int, ...], layers: tuple[int, ...]) -> Observation:
    model = transformers_model(target)
    assert all(layer + 1 < model.config.num_hidden_layers for layer in layers), "the last one is normed already"
    out = model(input_ids=torch.tensor([ids]), use_cache=False, output_hidden_states=bool(layers))
    taps = torch.cat([out.hidden_states[i + 1][0] for i in layers], -1) if layers else torch.empty(len(ids), 0)
    return Observation(out.logits[0].float(), taps)


def misses(target: str, prompt: Sequence[int], output: Sequence[int]) -> list[Miss]:
    """Tokens of the output that are not the target's top-1 after the text before them."""
    rows = observe(target, [*prompt, *output]).logits[len(prompt) - 1 : -1]
    found = []
    for at, (row, token) in enumerate(zip(rows, output, strict=True)):
        best = int(row.argmax())
        if best != token:
            found.append(Miss(at, token, best, float((row[best] - row[token]) / row.abs().max())))
    return found


def assert_greedy(target: str, prompt: Sequence[int], output: Sequence[int], what: str = "") -> None:
    """Every token is the top-1; ties are listed, not failed."""
    assert len(output) > 0, f"{what}: nothing was emitted"
    wrong = []
    for miss in misses(target, prompt, output):
        TIES.append(f"{what} {miss}") if miss.is_tie else wrong.append(miss)
    assert not wrong, f"{what}: {len(wrong)} of {len(output)} tokens are not the target's own, first {wrong[0]}"


def assert_same(
    target: str, prompt: Sequence[int], first: Sequence[int], second: Sequence[int], what: str = ""
) -> None:
    """Two texts of one prompt are equal, or part at a tie."""
    if list(first) == list(second):
        return
    at = next((i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    assert at is not None, f"{what}: lengths {len(first)} and {len(second)}"
    row = observe(target, [*prompt, *first[:at]]).logits[-1]
    gap = float((row[first[at]] - row[second[at]]).abs() / row.abs().max())
    assert gap <= ROUNDING, f"{what}: token {at} is {first[at]} and {second[at]}, scores {gap:.1e} apart"
    TIES.append(f"{what} token {at}: {first[at]} and {second[at]}")
