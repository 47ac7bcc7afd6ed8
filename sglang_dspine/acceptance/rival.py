"""Proposals of a DFlash, DFlash2 or DSpark drafter; greedy, behind the same anchors as DSpine's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..errors import DSpineError
from ..reference.backbone import project_context
from .arm import Arm
from .block import run_block
from .capture import Ends
from .context import batches, behind
from .flash import FlashConfig, read_flash, read_flash_weights


class Rival:
    """A drafter ready to propose behind anchors of a captured sequence."""

    causal = False  # another width is another block

    def __init__(self, arm: Arm, ends: Ends, dtype: torch.dtype, device: str) -> None:
        if arm.fp8 or arm.bridge != "full":
            raise DSpineError(f"arm {arm.name}: fp8 and bridge= are DSpine's; {arm.folder} holds another drafter")
        self.config = _narrowed(read_flash(arm.folder), arm)
        self.weights, self.device = read_flash_weights(arm.folder, dtype, device), device
        self.embed, self.head = (end.to(device, dtype) for end in (ends.embed, ends.head))

    @property
    def taps(self) -> tuple[int, ...]:
        return self.config.shapes.target_layer_ids

    @property
    def block(self) -> int:
        return self.config.shapes.block_size

    @torch.inference_mode()
    def propose(self, taps: Tensor, tokens: Tensor, at: Sequence[int], rows: int) -> Tensor:
        """taps [S, taps·H], tokens [S], anchors at positions `at` -> int64 [A, rows - 1] on the CPU."""
        c, fc = self.config.shapes, self.weights["fc.weight"]
        with torch.device(self.device):
            context = project_context(taps.to(fc.device, fc.dtype)[None], self.weights, c)[0]
            windows = [c.window_of(layer) for layer in range(c.num_layers)]
            reach = None if None in windows else max(w for w in windows if w is not None) - 1
            row_bytes = fc.element_size() * (c.hidden_size + 6 * c.num_heads * c.head_dim)
            parts = []
            for batch in batches(at, reach, row_bytes, self.device):
                here = [at[place] for place in batch]
                seen, lengths = behind(context, here, reach)
                parts.append(self._propose(tokens[here].to(self.device), seen, lengths, rows).cpu())
        return torch.cat(parts)

    def _propose(self, anchor: Tensor, context: Tensor, lengths: Tensor, rows: int) -> Tensor:
        block = anchor.new_full((len(anchor), rows - self.config.rows_spared), self.config.shapes.mask_token_id)
        block[:, 0] = anchor
        hidden = run_block(self.embed[block], context, lengths, self.weights, self.config)
        hidden = hidden if self.config.from_anchor else hidden[:, 1:]  # [N, R, H]
        logits = hidden @ self.head.T
        logits[..., self.config.shapes.vocab_size :] = -math.inf
        if self.config.selector_rank:
            return self._selected(logits.float(), hidden, anchor)
        if self.config.markov:
            return self._corrected(logits, hidden, anchor)
        return logits.argmax(-1)

    def _selected(self, logits: Tensor, hidden: Tensor, anchor: Tensor) -> Tensor:
        """DFlash2: of each row's best tokens the one that follows its predecessor best, unary score included."""
        logits = logits * self.config.multiplier
        if self.config.softcap:
            logits = (logits / self.config.softcap).tanh() * self.config.softcap
        w, k = self.weights, self.config.shapes.top_k
        unary, ids = logits.sort(dim=-1, descending=True, stable=True)
        unary, ids = unary[..., :k], ids[..., :k]
        state = hidden @ w["candidate_selector.hidden_projection.weight"].T  # [N, R, rank]
        previous, chosen = anchor, []
        for row in range(ids.shape[1]):
            key = w["candidate_selector.predecessor_codebook"][previous] * state[:, row]  # [N, rank]
            after = w["candidate_selector.successor_codebook"][ids[:, row]]  # [N, K, rank]
            scores = unary[:, row] + (after @ key[..., None])[..., 0].float()
            previous = ids[:, row].gather(1, scores.argmax(-1, keepdim=True))[:, 0]
            chosen.append(previous)
        return torch.stack(chosen, 1)

    def _corrected(self, logits: Tensor, hidden: Tensor, anchor: Tensor) -> Tensor:
        """DSpark: each row's logits and a low-rank bias from the token before, possibly gated by the row's state."""
        w = self.weights
        previous, chosen = anchor, []
        for row in range(logits.shape[1]):
            latent = w["markov_head.markov_w1.weight"][previous]  # [N, rank]
            if self.config.markov == "gated":
                gate = torch.cat([hidden[:, row], latent], -1) @ w["markov_head.gate_proj.weight"].T
                latent = latent * (gate + w["markov_head.gate_proj.bias"]).sigmoid()
            bias = latent @ w["markov_head.markov_w2.weight"].T
            previous = (logits[:, row, : bias.shape[-1]] + bias).argmax(-1)
            chosen.append(previous)
        return torch.stack(chosen, 1)


def _narrowed(config: FlashConfig, arm: Arm) -> FlashConfig:
    c = config.shapes
    if arm.width is not None and not 2 <= arm.width <= c.block_size:
        raise DSpineError(f"arm {arm.name}: width {arm.width}; expected 2..{c.block_size} (anchor included)")
    if arm.window is None:
        return config
    # only what is seen of the context changes: `causal` was read from the layers' own types
    return replace(
        config, shapes=replace(c, sliding_window=arm.window, layer_types=("sliding_attention",) * c.num_layers)
    )
