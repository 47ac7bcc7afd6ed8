"""Logit adjustments of a verify block in plain decode's order: penalties, grammar, bias, custom processors."""

from __future__ import annotations

from typing import Any

import torch

from .penalties import Penalties, penalise_block


def adjust_logits(
    logits: torch.Tensor, block: torch.Tensor, sampling_info: Any, penalties: Penalties | None, grammar_mask: Any
) -> bool:
    """In place. logits [N*w, V]; block [N, w] anchor and proposals. Returns whether numbers of a request's own came in,
    which nobody vouches for."""
    n, w = block.shape
    if penalties is not None:
        penalise_block(logits.view(n, w, -1), block, penalties)
    if grammar_mask is not None:
        grammar_mask.apply(logits)
    if sampling_info is None:
        return False
    if sampling_info.logit_bias is not None:
        logits.view(n, w, -1).add_(sampling_info.logit_bias[:, None].to(logits.dtype))
    if sampling_info.has_custom_logit_processor:
        from sglang.srt.layers.sampler import apply_custom_logit_processor

        apply_custom_logit_processor(logits, sampling_info, num_tokens_in_batch=w)
    return sampling_info.logit_bias is not None or bool(sampling_info.has_custom_logit_processor)
