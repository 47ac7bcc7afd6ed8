"""Count speculative rounds on a text that the target wrote: the accepted length of each, bonus included."""

import torch
from distil import observe
from drafter import Drafter
from transformers import Qwen3_5ForCausalLM


@torch.no_grad()
def accepted_lengths(
    drafter: Drafter, model: Qwen3_5ForCausalLM, tokens: torch.Tensor, prompt: int
) -> tuple[list[list[int]], int]:
    """tokens [B, prompt + count], greedy text -> one list per row, and how many tokens are no top-1.

    The first token written comes from the prefill and is the first anchor. A round that would run past
    the end is not counted: its length would be cut.
    """
    taps, logits = observe(model, tokens, drafter.s.taps)
    differ = int((logits[:, prompt - 1 : -1].argmax(-1) != tokens[:, prompt:]).sum())
    embed, head = model.model.embed_tokens.weight, model.lm_head.weight
    lengths: list[list[int]] = [[] for _ in tokens]
    at = torch.full((len(tokens), 1), prompt, device=tokens.device)
    last, steps = tokens.shape[1] - drafter.s.block, torch.arange(1, drafter.s.block, device=tokens.device)
    while bool((at <= last).any()):
        here = at.clamp(max=last)
        drafted = drafter(taps, tokens, here, embed, head)
        path = drafter.walk(drafted, tokens.gather(1, here), head)[:, 0]
        agreed = (path == tokens.gather(1, here + steps)).long().cumprod(1).sum(1, keepdim=True) + 1
        for row in (at <= last)[:, 0].nonzero()[:, 0].tolist():
            lengths[row].append(int(agreed[row]))
        at = at + agreed
    return lengths, differ


def without_bridge(drafter: Drafter) -> Drafter:
    """The same drafter with every write zero: rows no longer hear their predecessor."""
    for write in drafter.injection.writes:
        torch.nn.init.zeros_(write.weight)
    return drafter


def repeated(tokens: torch.Tensor, size: int = 32) -> float:
    """Share of 32-grams of a text that occurred before in it: high values mean a loop."""
    grams = [tuple(row) for row in tokens.unfold(0, size, 1).tolist()]
    return 1.0 - len(set(grams)) / len(grams)
