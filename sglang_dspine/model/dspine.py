"""`DSpineDraftModel`: SGLang's DFlash backbone, causal, with the code bridge after every layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from sglang.srt.layers.logits_processor import LogitsProcessorOutput
from sglang.srt.models.dflash import DFlashDraftModel

from ..checkpoint.read import iter_checkpoint
from ..config import DraftConfig
from ..config.parse import parse_config
from ..config.rope import sglang_rope_scaling
from ..draft.head import TargetHead
from ..draft.proposer import Proposer
from ..draft.table import TransitionTable
from .bridge import Bridge
from .narrow_window import widen_block
from .selector import SelectorMarker
from .weights import load_bridge


class DSpineDraftModel(DFlashDraftModel):
    """One forward drafts a whole block and, once `make_proposer` was called, proposes its tokens.

    Everything from embedding to walk happens inside `forward`, so a captured graph holds all of it and eager
    execution is the same code.
    """

    supports_quantization = True  # `fc` too: SGLang's DFlash leaves it in BF16

    def __init__(self, config: Any, quant_config: Any = None, prefix: str = "") -> None:
        c = parse_config(config.to_dict(), where="draft config")
        if c.rope_scaling is not None:
            # SGLang reads YaRN's magnitude by another name
            config.rope_parameters = {"rope_theta": c.rope_theta, **(sglang_rope_scaling(c.rope_scaling) or {})}
        super().__init__(config=config, quant_config=quant_config, prefix=prefix)
        self.dspine: DraftConfig = c
        self.bridge = Bridge(c.num_layers, c.hidden_size, c.transfer_rank, c.message_size, c.vocab_size)
        self.candidate_selector = SelectorMarker(c.top_k)  # tells SGLang's worker that q rows exist
        self.width = c.block_size  # rows of a block in the next forward
        self.table: TransitionTable | None = None
        self.proposer: Proposer | None = None
        self.loaded = False
        widen_block(self)

    def attach_head(self, head: TargetHead) -> None:
        """Give the drafter the target's output head; the table's constants take memory, so before pools are sized."""
        self.table = TransitionTable(self.bridge, self.norm.weight, self.dspine.rms_norm_eps, head)

    def make_proposer(self, max_batch: int, agree: Callable[[torch.Tensor], object] | None = None) -> None:
        """Make the proposal's buffers; must happen before a graph is captured. agree: as in `Proposer`."""
        assert self.table is not None, "attach_head first"
        self.proposer = Proposer(self.dspine, self.table, max_batch, agree)

    def set_block_size(self, block_size: int) -> None:
        super().set_block_size(block_size)
        self.width = int(block_size)

    @torch.no_grad()
    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        forward_batch: Any,
        input_embeds: torch.Tensor | None = None,
        get_embedding: bool = False,
        pp_proxy_tensors: Any = None,
    ) -> LogitsProcessorOutput:
        """Draft. input_ids, positions [N*w]; input_embeds [N*w, H] from the target's embedding.

        Returns hidden_states [N*w, H] after the final norm; the proposal lies in `self.proposer`.
        """
        if input_embeds is None:
            raise ValueError("DSpineDraftModel needs input_embeds: the draft has no embedding of its own")
        if input_embeds.numel() == 0:
            return LogitsProcessorOutput(next_token_logits=None, hidden_states=input_embeds)
        w, hidden_size = self.width, input_embeds.shape[-1]
        anchor = input_ids.view(-1, w)[:, 0].contiguous()  # [N] once, for every kernel that reads it
        h = input_embeds  # [N*w, H] residual stream
        injected = None
        for index, layer in enumerate(self.layers):
            delta, residual = layer(positions, h, forward_batch, None)
            injected = self.bridge.inject(
                index, residual.view(-1, w, hidden_size), delta.view(-1, w, hidden_size), anchor
            )
            h = injected.after.view(-1, hidden_size)
        u = self.norm(h)
        if self.proposer is not None:
            assert injected is not None
            self.proposer(u.view(-1, w, hidden_size)[:, 1:], injected.before, injected.receive, anchor)
        return LogitsProcessorOutput(next_token_logits=None, hidden_states=u)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """At start the checkpoint is read by our own reader, which knows all layouts and names every fault; a later
        weight update comes through `weights`."""
        folder = Path(getattr(self.config, "_name_or_path", "") or "")
        if not self.loaded and folder.is_dir():
            weights = iter_checkpoint(folder)
        self.loaded = True
        # SGLang's weight updater looks for it in every module, and refuses with it
        self._derived_weight_cache_error = (
            "DSPINE's draft takes no online weight update: its graphs hold tables made from its weights when it was "
            "loaded; update the target alone (selector target), and restart for another drafter"
        )
        super().load_weights(load_bridge(self.bridge, weights, self.dspine))
        if self.table is not None:
            self.table.prepare()


EntryClass = [DSpineDraftModel]
