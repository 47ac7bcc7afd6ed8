"""Count speculative rounds on a text that the target wrote: the accepted length of each, bonus included."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from transformers import Qwen3_5ForCausalLM

from .drafter import Drafter

Propose = Callable[[Tensor, Tensor], Tensor]
"""(text numbers [R], anchor positions [R]) -> proposals [R, N-1] after each anchor, from the text before it."""


def training_form(drafter: Drafter, model: Qwen3_5ForCausalLM, tokens: Tensor, taps: Tensor) -> Propose:
    """Proposals of the drafter as trained; tokens [B, L], taps [B, L, taps·H]."""
    embed, head = model.model.embed_tokens.weight, model.lm_head.weight

    def propose(text: Tensor, anchor_at: Tensor) -> Tensor:
        at = anchor_at[:, None]
        drafted = drafter(taps[text], tokens[text], at, embed, head)
        return drafter.walk(drafted, tokens[text].gather(1, at), head)[:, 0]

    return propose


@torch.no_grad()
def accepted_lengths(propose: Propose, tokens: Tensor, prompt: int, block: int) -> list[list[int]]:
    """tokens [B, prompt + count], greedy text -> one list of accepted lengths per row.

    The first token written comes from the prefill and is the first anchor. A round that would run past
    the end of the text is not counted: its length would be cut.
    """
    lengths: list[list[int]] = [[] for _ in tokens]
    at = torch.full((len(tokens),), prompt, device=tokens.device)
    last, steps = tokens.shape[1] - block, torch.arange(1, block, device=tokens.device)
    while len(open_texts := (at <= last).nonzero()[:, 0]):
        here = at[open_texts]
        written = tokens[open_texts].gather(1, here[:, None] + steps)
        agreed = (propose(open_texts, here) == written).long().cumprod(1).sum(1) + 1
        for row, length in zip(open_texts.tolist(), agreed.tolist(), strict=True):
            lengths[row].append(length)
        at[open_texts] += agreed
    return lengths


def flat(lengths: list[list[int]]) -> Iterator[int]:
    return (n for row in lengths for n in row)


def mean(lengths: list[list[int]]) -> float:
    """Over rounds, not over texts: what a server counts."""
    every = list(flat(lengths))
    return sum(every) / len(every) if every else float("nan")


def without_bridge(drafter: Drafter) -> Drafter:
    """The same drafter with every write zero: rows no longer hear their predecessor."""
    for write in drafter.injection.writes.parameters():
        torch.nn.init.zeros_(write)
    return drafter


def repeated(tokens: Tensor, size: int = 32) -> float:
    """Share of 32-grams of a text that occurred before in it: high values mean a loop."""
    grams = [tuple(row) for row in tokens.unfold(0, size, 1).tolist()]
    return 1.0 - len(set(grams)) / len(grams)
