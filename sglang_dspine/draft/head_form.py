"""Which stored form the target's `lm_head` has, as SGLang 0.5.23 leaves it after loading."""

from __future__ import annotations

from typing import Any

import torch

from ..kernels.head_rows.form import FP8, NVFP4, StoredHead


def quantised_form(lm_head: Any, hidden_size: int) -> StoredHead | None:
    """The head's FP8 or NVFP4 rows as they lie in memory, or None for a layout not known here.

    Known: FP8 with one scale, or one a row (ModelOpt, compressed-tensors); NVFP4 as SGLang hands it to CUTLASS, cuDNN
    or FlashInfer's own kernels. Marlin's and TensorRT-LLM's shuffled weights are not.
    """
    weight, scale = lm_head.weight.data, getattr(lm_head, "weight_scale", None)
    if weight.dtype == torch.float8_e4m3fn and weight.ndim == 2 and scale is not None:
        return _fp8(weight, scale.data, hidden_size)
    swizzled = getattr(lm_head, "weight_scale_interleaved", None)
    if weight.dtype == torch.uint8 and swizzled is not None and weight.shape[1] * 2 >= hidden_size:
        return _nvfp4(lm_head, weight, swizzled.data, hidden_size)
    return None


def _fp8(weight: torch.Tensor, scale: torch.Tensor, hidden_size: int) -> StoredHead | None:
    rows = weight.t() if weight.shape[0] == hidden_size else weight  # SGLang keeps it transposed, [H, V]
    if rows.shape[1] != hidden_size or rows.stride(1) != 1 or scale.numel() not in (1, rows.shape[0]):
        return None
    scales = scale.float().reshape(-1).expand(rows.shape[0]).contiguous()
    return StoredHead(rows, hidden_size, FP8, scales)


def _nvfp4(lm_head: Any, weight: torch.Tensor, swizzled: torch.Tensor, hidden_size: int) -> StoredHead | None:
    rows, blocks = -(-weight.shape[0] // 128) * 128, -(-hidden_size // 64) * 4
    if hidden_size % 16 or swizzled.numel() != rows * blocks or weight.stride(1) != 1:
        return None
    scale = getattr(lm_head, "weight_scale_2", None)
    if scale is None:  # alpha is the product of the weight's and the activations' scales
        scale = lm_head.alpha.float() * lm_head.input_scale_inv.float()
    scale = scale.data.max()
    return StoredHead(weight, hidden_size, NVFP4, swizzled.contiguous(), scale.float().reshape(1))
