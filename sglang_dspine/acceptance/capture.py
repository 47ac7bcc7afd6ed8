"""What the target leaves behind on a sequence: the outputs of tapped layers, and its best token after each position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import DSpineError

HEAD_ROWS = 512  # positions whose logits are in memory together


@dataclass(frozen=True)
class Captured:
    """S positions of one sequence."""

    tokens: Tensor  # int64 [S]
    taps: Tensor  # [S, taps, H] outputs of the layers asked for, in that order
    best: Tensor  # int64 [S]: the target's top-1 for position i + 1


@dataclass(frozen=True)
class Ends:
    """Both ends of the target, which drafters share."""

    embed: Tensor  # [>= V, H]
    head: Tensor  # [>= V, H]


class Target:
    """A causal language model that transformers loads."""

    def __init__(self, path: str, dtype: str, device: str) -> None:
        from transformers import AutoModelForCausalLM

        try:
            model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
        except (OSError, ValueError) as error:
            raise DSpineError(f"{path}: transformers cannot load it: {error}") from error
        self.model, self.device = model.to(device).eval(), device
        self.body = model.get_decoder()
        self.layers = _layers(self.body, path)

    @property
    def ends(self) -> Ends:
        head = self.model.get_output_embeddings()
        return Ends(self.model.get_input_embeddings().weight.detach(), head.weight.detach())

    @torch.inference_mode()
    def capture(self, ids: Sequence[int], taps: Sequence[int]) -> Captured:
        """One forward over the whole sequence, without a cache."""
        if not ids or max(taps) >= len(self.layers):
            raise DSpineError(f"taps {list(taps)} of a target with {len(self.layers)} layers, {len(ids)} tokens")
        seen: dict[int, Tensor] = {}

        def keep(index: int):
            def hook(module: nn.Module, inputs: Any, output: Any) -> None:
                seen[index] = (output[0] if isinstance(output, tuple) else output)[0].cpu()

            return hook

        handles = [self.layers[i].register_forward_hook(keep(i)) for i in sorted(set(taps))]
        try:
            tokens = torch.tensor([list(ids)], device=self.device)
            hidden = self.body(input_ids=tokens, use_cache=False).last_hidden_state[0]
        finally:
            for handle in handles:
                handle.remove()
        head = self.model.get_output_embeddings()
        best = torch.cat([head(rows).argmax(-1).cpu() for rows in hidden.split(HEAD_ROWS)])
        return Captured(tokens[0].cpu(), torch.stack([seen[i] for i in taps], 1), best)

    @torch.inference_mode()
    def continued(self, ids: Sequence[int], count: int) -> tuple[int, ...]:
        """`ids` and `count` greedy tokens; an end token does not stop it, so that every text weighs the same."""
        prompt = torch.tensor([list(ids)], device=self.device)
        length = len(ids) + count
        whole = self.model.generate(
            prompt, attention_mask=torch.ones_like(prompt), do_sample=False, min_length=length, max_length=length,
            pad_token_id=0,
        )  # fmt: skip
        return tuple(whole[0].tolist())


def _layers(body: nn.Module, path: str) -> nn.ModuleList:
    found = getattr(body, "layers", None)
    if not isinstance(found, nn.ModuleList):
        raise DSpineError(f"{path}: {type(body).__name__} has no list of layers to tap; expected a decoder")
    return found
