"""Train the drafter on what the target does: real prompts, continued by the target itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from transformers import Qwen3_5ForCausalLM

from .clock import Clock
from .drafter import Drafter
from .hybrid import Log, descend, generate, optimizer, round_to_bfloat16
from .text import Corpus


@dataclass
class Material:
    """tokens [rows, L]: a prompt of `prompt` bytes of real text, then the target's own text."""

    tokens: torch.Tensor
    prompt: int

    def add(self, more: torch.Tensor) -> None:
        self.tokens = torch.cat([self.tokens, more])


def make_material(
    model: Qwen3_5ForCausalLM,
    corpus: Corpus,
    clock: Clock,
    batch: int,
    lengths: list[tuple[int, int]],
    log: Log,
) -> list[Material]:
    """For each (prompt, continuation) length in turn: half greedy, a quarter each at temperature 0.7 and 1."""
    device = next(model.parameters()).device
    temperature = torch.tensor([0.0, 0.7, 0.0, 1.0], device=device).repeat(-(-batch // 4))[:batch]
    sets = [Material(torch.empty(0, p + n, dtype=torch.int16), p) for p, n in lengths]
    more = True
    while more:
        for part, (prompt, count) in zip(sets, lengths, strict=True):
            part.add(generate(model, corpus.rows(batch, prompt), count, temperature).to("cpu", torch.int16))
        more = clock.tick()
        log(f"generated {[len(s.tokens) for s in sets]} rows in {clock.elapsed:.0f}s")
    return [Material(s.tokens.to(device), s.prompt) for s in sets]


@torch.no_grad()
def observe(
    model: Qwen3_5ForCausalLM, tokens: torch.Tensor, taps: tuple[int, ...]
) -> tuple[torch.Tensor, torch.Tensor]:
    """tokens [B, S] -> captured layer outputs [B, S, taps·H] and next-token logits [B, S, V]."""
    out = model(input_ids=tokens, use_cache=False, output_hidden_states=True)
    return torch.cat([out.hidden_states[t + 1] for t in taps], -1), out.logits


def choose_anchors(rows: int, count: int, prompt: int, length: int, block: int, device: str) -> torch.Tensor:
    """[rows, count] positions: three quarters where the target wrote the text, the rest anywhere."""
    last = length - block
    inside = torch.randint(max(min(prompt - 1, last), 1), last + 1, (rows, count - count // 4), device=device)
    return torch.cat([inside, torch.randint(1, last + 1, (rows, count // 4), device=device)], 1)


@dataclass
class Lesson:
    """What the rows behind each anchor should say; all of [B, A, N-1, ...] but `weight` [N-1].

    The label of a row is the text's token mixed with the target's distribution there. Early rows weigh more: a late
    row counts only if every earlier one was right.
    """

    previous: torch.Tensor  # the token before each row
    text: torch.Tensor  # the row's own
    label: torch.Tensor  # [..., V]
    weight: torch.Tensor

    def cross_entropy(self, scores: torch.Tensor) -> torch.Tensor:
        per_row = -(self.label * scores.float().log_softmax(-1)).sum(-1)
        return (per_row * self.weight).mean() / self.weight.mean()

    def right(self, scores: torch.Tensor) -> torch.Tensor:
        """How often the best token is the text's, row by row [N-1]."""
        return (scores.argmax(-1) == self.text).float().mean((0, 1)).detach()


def lesson(tokens: torch.Tensor, logits: torch.Tensor, anchor_at: torch.Tensor, block: int) -> Lesson:
    """tokens [B, S], the target's logits [B, S, V], anchor_at [B, A]."""
    at = anchor_at[..., None] + torch.arange(block - 1, device=tokens.device)  # each row's predecessor
    b = torch.arange(len(tokens), device=tokens.device)[:, None, None]
    previous, text = tokens[b, at], tokens[b, at + 1]
    label = 0.3 * logits[b, at].float().softmax(-1) + 0.7 * F.one_hot(text, logits.shape[-1])
    return Lesson(previous, text, label, torch.exp(-torch.arange(block - 1, device=tokens.device) / 7.0))


Loss = Callable[[Any, Qwen3_5ForCausalLM, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""(drafter, target, tokens [B, S], anchor_at [B, A]) -> loss, and how often each row is right [N-1]."""


def draft_loss(
    drafter: Drafter, model: Qwen3_5ForCausalLM, tokens: torch.Tensor, anchor_at: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The transition is taught with the true predecessor, the candidate head without one."""
    embed, head = model.model.embed_tokens.weight.detach(), model.lm_head.weight.detach()
    taps, logits = observe(model, tokens, drafter.s.taps)
    d = drafter(taps, tokens, anchor_at, embed, head)
    taught = lesson(tokens, logits, anchor_at, drafter.s.block)
    scores = drafter.transition(d, taught.previous, head)
    loss = taught.cross_entropy(scores) + 0.5 * taught.cross_entropy(d.unary)
    for f in d.all_features:  # a feature should say what its row's token code would
        loss = loss + 0.05 * taught.cross_entropy(f @ drafter.transfer_codes.T)
    return loss, taught.right(scores)


def train_drafter(
    drafter: Any,
    model: Qwen3_5ForCausalLM,
    material: list[Material],
    clock: Clock,
    batch: int,
    anchors: int,
    log: Log,
    peak: float = 2e-3,
    loss_of: Loss = draft_loss,
) -> None:
    """drafter: a module whose `s` is its Shape and that `loss_of` knows how to teach."""
    device = next(model.parameters()).device.type
    nn.Module.requires_grad_(model, False)
    opt = optimizer(drafter, peak)
    while True:
        part = material[clock.step % len(material)]
        tokens = part.tokens[torch.randint(len(part.tokens), (batch,), device=device)].long()
        at = choose_anchors(batch, anchors, part.prompt, tokens.shape[1], drafter.s.block, device)
        with torch.autocast(device, torch.bfloat16):
            loss, right = loss_of(drafter, model, tokens, at)
        descend(loss, drafter, opt, clock.rate(peak))
        if clock.step % 200 < len(material):
            shown = " ".join(f"{100 * r:.0f}" for r in right[::2].tolist())
            log(f"draft step {clock.step} {clock.elapsed:.0f}s: loss {loss.item():.3f}, right % rows 1,3,…: {shown}")
        if not clock.tick():
            break
    round_to_bfloat16(drafter)
    log(f"drafter: {clock.step} steps in {clock.elapsed:.0f}s")
