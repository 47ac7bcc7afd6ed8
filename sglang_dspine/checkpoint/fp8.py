"""Row quantisation to FP8 in plain PyTorch, bit for bit what SGLang's kernel writes.

SGLang quantises the weight of a linear layer with `per_token_group_quant_fp8(weight, in_features)`; a group as long as
the row goes to its per-token kernel (kernels/jit/csrc/gemm/per_token_quant_fp8.cuh). For each row of a BF16 weight:

    scale = max |w| / 448          448 is the largest e4m3 value
    q     = e4m3(w * (1 / scale))  multiplied by the reciprocal, clamped to +-448, rounded to nearest even

All in float32; what the two divisions round to depends on the GPU, see `Rounding`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from .hopper import RECIPROCAL_ULPS

if TYPE_CHECKING:
    import torch

FP8_MAX = 448.0
_CHUNK = 1 << 24  # elements quantised together: 64 MB of float32
_NORMAL = 2.0**-126  # smallest normal float32


class Rounding(str, Enum):
    """Float32 arithmetic of the kernel. Which one a server uses follows from its GPU.

    The e4m3 values of the two differ only where a weight lies half-way between two e4m3 values, and the scales by one
    unit in the last place. Re-quantising a dequantised row gives its e4m3 values back under either of them.
    """

    IEEE = "ieee"  # every GPU but Hopper
    HOPPER = "hopper"  # sm_90: SGLang compiles the kernel there with --use_fast_math

    def __str__(self) -> str:
        return self.value


def quantise_rows(
    weight: torch.Tensor, rounding: Rounding = Rounding.IEEE, *, few_rows: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise each row of a linear layer's weight.

    Args:
        weight: [out, in], finite; cast to BF16 first, the dtype in which SGLang holds it when it quantises.
        few_rows: as the kernel's variant for fewer than 16 rows a multiprocessor does it. It divides by the scale
            without looking: a row of zeros becomes 448 with scale 0, where the other variant writes 0 with scale 0.
            Both stand for zeros, so a checkpoint holds the second, whatever the layer's size.
    Returns:
        float8_e4m3fn [out, in] and its float32 scale [out, 1].
    """
    import torch

    quantised = torch.empty(weight.shape, dtype=torch.float8_e4m3fn)
    scale = torch.empty(weight.shape[0], 1, dtype=torch.float32)
    rows = max(1, _CHUNK // max(1, weight.shape[1]))
    for start in range(0, weight.shape[0], rows):
        part = weight[start : start + rows].to(torch.bfloat16).float()
        if rounding is Rounding.HOPPER:
            part = flush(part)
        scale[start : start + rows], inverse = scale_and_inverse(part.abs().amax(1, keepdim=True), rounding)
        if not few_rows:
            inverse.masked_fill_(scale[start : start + rows] == 0, 0.0)
        # infinity times zero is NaN, which CUDA's min(NaN, 448) turns into 448
        part.mul_(inverse).nan_to_num_(nan=FP8_MAX).clamp_(-FP8_MAX, FP8_MAX)
        quantised[start : start + rows] = part.to(torch.float8_e4m3fn)
    return quantised, scale


def scale_and_inverse(peak: torch.Tensor, rounding: Rounding) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale and reciprocal scale of rows whose largest magnitude is `peak`: BF16 values in float32, any shape."""
    import torch

    if rounding is Rounding.IEEE:
        scale = peak / FP8_MAX
        return scale, 1 / scale
    # the compiler folds the approximate division by a constant into a product with its reciprocal
    scale = flush(peak * torch.tensor(1 / FP8_MAX, dtype=torch.float32))
    mantissa = (peak.view(torch.int32) >> 16) & 0x7F  # all that the last bits of a BF16 peak's scale depend on
    ulps = torch.tensor(RECIPROCAL_ULPS, dtype=torch.int32)[mantissa.long()]
    inverse = 1 / scale
    moved = (inverse.view(torch.int32) + ulps).view(torch.float32)
    return scale, torch.where(inverse.isinf(), inverse, moved)


def flush(values: torch.Tensor) -> torch.Tensor:
    """Subnormal float32 numbers to zero, their sign kept: what CUDA's fast arithmetic does with them."""
    import torch

    return torch.where(values.abs() < _NORMAL, values * 0.0, values)


def rounding_of(capability: tuple[int, int]) -> Rounding:
    """The arithmetic SGLang's kernel uses on a GPU of this compute capability."""
    return Rounding.HOPPER if tuple(capability) == (9, 0) else Rounding.IEEE
