"""Logit adjustments of a verify block, row by row as plain decode would have made them."""

from __future__ import annotations

from typing import Any

import torch


def adjust_logits(logits: torch.Tensor, sampling_info: Any, width: int) -> None:
    """Custom processors and logit bias, in place. logits [N*w, V]; penalties live in `penalties.py`."""
    if sampling_info is None:
        return
    if sampling_info.has_custom_logit_processor:
        from sglang.srt.layers.sampler import apply_custom_logit_processor

        apply_custom_logit_processor(logits, sampling_info, num_tokens_in_batch=width)
    if sampling_info.logit_bias is not None:
        rows = logits.view(-1, width, logits.shape[-1])
        rows.add_(sampling_info.logit_bias[:, None].to(logits.dtype))
