"""Proposals of a DSpine drafter, by the reference: variants of the bridge, a narrower window, FP8 linears."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..agreement.draft import QuantisedInputs
from ..checkpoint.expected import is_fp8_linear
from ..checkpoint.fp8 import quantise_rows
from ..checkpoint.read import load_checkpoint
from ..config import DraftConfig
from ..errors import DSpineError
from ..reference.arithmetic import Arithmetic
from ..reference.backbone import project_context
from ..reference.candidates import top_candidates
from ..reference.drafter import Drafter
from ..reference.table import refine_serially
from .arm import Arm
from .capture import Ends
from .context import batches, behind


class DSpine:
    """A drafter ready to propose behind anchors of a captured sequence; greedy."""

    causal = True  # the first rows of a block are the same in a narrower one

    def __init__(self, arm: Arm, ends: Ends, dtype: torch.dtype, device: str) -> None:
        config, weights = load_checkpoint(arm.folder, dtype)
        self.config, self.device = _narrowed(config, arm), device
        arithmetic: Arithmetic = Arithmetic()
        if arm.fp8:
            weights = {name: _rounded(w) if is_fp8_linear(name) else w for name, w in weights.items()}
        weights = {name: w.to(device) for name, w in _bridged(weights, config, arm).items()}
        if arm.fp8:
            arithmetic = QuantisedInputs(
                weights={w.data_ptr() for name, w in weights.items() if is_fp8_linear(name)}
            )  # fmt: skip
        embed, head = (end.to(device, dtype) for end in (ends.embed, ends.head))
        self.drafter = Drafter(self.config, weights, embed, head, arithmetic=arithmetic)

    @property
    def taps(self) -> tuple[int, ...]:
        return self.config.target_layer_ids

    @property
    def block(self) -> int:
        return self.config.block_size

    @torch.inference_mode()
    def propose(self, taps: Tensor, tokens: Tensor, at: Sequence[int], rows: int) -> Tensor:
        """taps [S, taps·H], tokens [S], anchors at positions `at` -> int64 [A, rows - 1] on the CPU."""
        drafter, config = self.drafter, self.config
        with torch.device(self.device):
            fc = drafter.weights["fc.weight"]
            context = project_context(taps.to(fc.device, fc.dtype)[None], drafter.weights, config, drafter.arithmetic)[
                0
            ]
            reach = _reach(config)
            row_bytes = fc.element_size() * (config.hidden_size + 6 * config.num_heads * config.head_dim)
            parts = []
            for batch in batches(at, reach, row_bytes, self.device):
                here = [at[place] for place in batch]
                seen, lengths = behind(context, here, reach)
                anchor = tokens[here].to(self.device)
                states = drafter.run(drafter.embed[drafter.block_tokens(anchor, rows)], seen, anchor, lengths)
                candidates = top_candidates(
                    states.block_hidden[:, 1:], drafter.head, config.top_k, config.vocab_size, drafter.arithmetic
                )
                walked = refine_serially(
                    states.pre_injection[:, 1:], candidates, anchor, drafter.refiner, drafter.arithmetic
                )
                parts.append(walked[0].cpu())
        return torch.cat(parts)


def _reach(config: DraftConfig) -> int | None:
    """Context rows before an anchor that any layer of any row can see; None: all."""
    windows = [config.window_of(layer) for layer in range(config.num_layers)]
    return None if None in windows else max(w for w in windows if w is not None) - 1


def _narrowed(config: DraftConfig, arm: Arm) -> DraftConfig:
    if arm.width is not None and not 2 <= arm.width <= config.block_size:
        raise DSpineError(f"arm {arm.name}: width {arm.width}; expected 2..{config.block_size} (anchor included)")
    if arm.window is None:
        return config
    if config.sliding_window is not None and arm.window > config.sliding_window:
        raise DSpineError(f"arm {arm.name}: window {arm.window} is beyond the trained {config.sliding_window}")
    return replace(config, sliding_window=arm.window, layer_types=("sliding_attention",) * config.num_layers)


def _bridged(weights: dict[str, Tensor], config: DraftConfig, arm: Arm) -> dict[str, Tensor]:
    """Writes that are zero leave a row as it was, and a table whose last write is zero cannot tell predecessors."""
    silent = {"full": 0, "last": config.num_layers - 1, "zeroed": config.num_layers}[arm.bridge]
    names = {f"injection.writes.{layer}.weight" for layer in range(silent)}
    return {name: torch.zeros_like(w) if name in names else w for name, w in weights.items()}


def _rounded(weight: Tensor) -> Tensor:
    values, scale = quantise_rows(weight)
    return (values.float() * scale).to(weight.dtype)
