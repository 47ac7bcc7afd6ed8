"""Seeded requests (SGLang's deterministic inference): seed and position fix the target's choice of every row.

A seeded sample is a function of the row's distribution, so the block is verified as a greedy one is: accept while the
proposal equals the choice plain decode would have made. The text is then plain decode's own, seed by seed.
"""

from __future__ import annotations

from typing import Any

import torch


def seeded_choice(logits: torch.Tensor, sampling_info: Any, positions: torch.Tensor, width: int) -> torch.Tensor:
    """The token SGLang's sampler draws for each row. logits [N*w, V], positions [N*w] -> [N*w] int64"""
    from sglang.srt.layers.sampler import sampling_from_probs_torch, top_k_top_p_min_p_sampling_from_probs_torch

    def rows(values: torch.Tensor) -> torch.Tensor:
        return values.repeat_interleave(width, 0)

    info = sampling_info
    probs = torch.softmax(logits / rows(info.temperatures), -1)
    seed = rows(info.sampling_seed)
    if not (info.need_top_p_sampling or info.need_top_k_sampling or info.need_min_p_sampling):
        return sampling_from_probs_torch(probs, sampling_seed=seed, positions=positions).long()
    chosen = top_k_top_p_min_p_sampling_from_probs_torch(
        probs, rows(info.top_ks), rows(info.top_ps), rows(info.min_ps), info.need_min_p_sampling, seed, positions
    )
    return chosen.long()
