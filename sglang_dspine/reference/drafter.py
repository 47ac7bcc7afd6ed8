"""From the target's captured layers and an anchor to a proposal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sglang_dspine.config import DraftConfig
from sglang_dspine.errors import DSpineError

from .arithmetic import DEFAULT, Arithmetic
from .backbone import draft_layer, project_context
from .bridge import Bridge, features, inject
from .candidates import top_candidates
from .low_rank import LowRank, transition_table_low_rank
from .table import Refiner, transition_table_direct
from .walk import sampled_walk


@dataclass(frozen=True)
class DraftStates:
    """What the draft forward leaves for candidates and table."""

    block_hidden: Tensor  # [N, B, H] after the final norm
    pre_injection: Tensor  # [N, B, H] last layer's residual stream before its injection
    layer_features: Tensor  # [L, N, B, r] features of the rows after each layer's injection


@dataclass(frozen=True)
class Proposal(DraftStates):
    """A drafted block. Proposal i of R = B - 1 belongs to block row i + 1."""

    tokens: Tensor  # int64 [N, R]
    choices: Tensor  # int64 [N, R], places of the tokens among the candidates
    candidates: Tensor  # int64 [N, R, K], best unary score first
    scores: Tensor  # [N, R, K, K], predecessor x candidate
    q: Tensor  # float64 [N, R, K], the law each token was drawn from


class Drafter:
    """One DSpine drafter with its target's embedding and head; works in the weights' dtype, on CPU.

    weights: tensors by canonical name (fc.weight, layers.{i}.self_attn.q_proj.weight, transfer_codes, ...);
    embed [>= V, H] and head [>= V, H] are the target's. low_rank picks the form of the transition table.
    """

    def __init__(
        self,
        config: DraftConfig,
        weights: Mapping[str, Tensor],
        embed: Tensor,
        head: Tensor,
        *,
        arithmetic: Arithmetic = DEFAULT,
        low_rank: bool = False,
    ):
        self.config, self.weights, self.embed, self.head = config, weights, embed, head
        self.arithmetic = arithmetic
        self.bridge = Bridge.from_weights(weights, config.num_layers)
        self.refiner = Refiner(self.bridge, weights["norm.weight"], head, config.rms_norm_eps)
        self.low_rank = LowRank.prepare(self.refiner, arithmetic=arithmetic) if low_rank else None

    def block_tokens(self, anchor: Tensor, rows: int) -> Tensor:
        """Row 0 holds the anchor, every other row the mask token: [N] -> [N, rows]."""
        tokens = anchor.new_full((len(anchor), rows), self.config.mask_token_id)
        tokens[:, 0] = anchor
        return tokens

    def forward(self, taps: Tensor, anchor: Tensor, lengths: Tensor, rows: int) -> DraftStates:
        """taps [N, S, taps·H], anchor [N], lengths [N] (context rows that count) -> states of `rows` rows."""
        context = project_context(taps, self.weights, self.config, self.arithmetic)  # [N, S, H]
        return self.run(self.embed[self.block_tokens(anchor, rows)], context, anchor, lengths)

    def run(self, h: Tensor, context: Tensor, anchor: Tensor, lengths: Tensor) -> DraftStates:
        """Layers and bridge on embedded rows h [N, B, H] over a projected context [N, S, H]."""
        seen = []
        for layer in range(self.config.num_layers):
            before = draft_layer(h, context, lengths, layer, self.weights, self.config, self.arithmetic)
            h = inject(before, anchor, layer, self.bridge, self.arithmetic)
            seen.append(features(h, self.bridge.readouts[layer], self.arithmetic))
        hidden = self.arithmetic.rms_norm(h, self.weights["norm.weight"], self.config.rms_norm_eps)
        return DraftStates(hidden, before, torch.stack(seen))

    def table(self, pre_injection: Tensor, candidates: Tensor, anchor: Tensor) -> Tensor:
        """Rows 1..R before the last injection [N, R, H], candidates [N, R, K], anchor [N] -> [N, R, K, K]."""
        given = (pre_injection, candidates, anchor)
        if self.low_rank is not None:
            return transition_table_low_rank(*given, self.low_rank, self.arithmetic)
        return transition_table_direct(*given, self.refiner, self.arithmetic)

    def propose(
        self,
        taps: Tensor,
        anchor: Tensor,
        *,
        lengths: Tensor | None = None,
        rows: int | None = None,
        temperature: Tensor | float = 0.0,
        uniforms: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Proposal:
        """Draft one block behind each anchor.

        taps [N, S, taps·H]: captured target layers of positions 0..S-1, concatenated; anchor int64 [N].
        lengths int64 [N]: rows of taps that count, S by default; the anchor stands at that position.
        rows: draw only the first so many block rows, anchor included (2..B); the proposals are the same.
        temperature: 0 for greedy, per block if a tensor [N]. uniforms [N, rows-1] in [0, 1) decide the draws,
        else they come from `generator`.
        """
        rows = self.config.block_size if rows is None else rows
        if not 2 <= rows <= self.config.block_size:
            raise DSpineError(f"rows: expected 2..{self.config.block_size} (anchor included), found {rows}")
        blocks, span, _ = taps.shape
        lengths = torch.full((blocks,), span) if lengths is None else lengths
        if uniforms is None:
            uniforms = torch.rand(blocks, rows - 1, generator=generator, dtype=torch.float64)
        states = self.forward(taps, anchor, lengths, rows)
        candidates = top_candidates(
            states.block_hidden[:, 1:], self.head, self.config.top_k, self.config.vocab_size, self.arithmetic
        )
        scores = self.table(states.pre_injection[:, 1:], candidates, anchor)
        heat = torch.as_tensor(temperature, dtype=torch.float64).expand(blocks)
        walk = sampled_walk(scores, candidates, heat, uniforms)
        return Proposal(**vars(states), **vars(walk), candidates=candidates, scores=scores)
