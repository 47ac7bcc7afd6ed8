"""FP8 linear layers in plain torch, in the memory layout and with the scales that CUDA has.

SGLang's own CPU form needs AMX. Only the online path is served: a BF16 weight, one scale per output channel, and
activations quantised token by token. The arithmetic of the product is float32.
"""

from __future__ import annotations

import torch

FP8_MAX = 448.0


def quantise_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[R, K] -> e4m3 [R, K], float32 scale [R, 1]; a row of zeros has scale 0."""
    scale = x.float().abs().amax(1, keepdim=True) / FP8_MAX
    inverse = torch.where(scale == 0, 0.0, 1 / scale)
    return (x.float() * inverse).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn), scale


def quantise_weight(original, self, layer: torch.nn.Module) -> None:
    if self.block_quant or self.is_checkpoint_fp8_serialized:
        original(self, layer)
        return
    values, scale = quantise_rows(layer.weight.data)
    layer.weight = torch.nn.Parameter(values.t(), requires_grad=False)  # [K, N], each column contiguous
    layer.weight_scale = torch.nn.Parameter(scale.t().contiguous(), requires_grad=False)  # [1, N]
    layer.input_scale = None


def product(original, self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    if self.block_quant or self.is_checkpoint_fp8_serialized:
        return original(self, layer, x, bias)
    rows, scale = quantise_rows(x.reshape(-1, x.shape[-1]))
    out = (rows.float() @ layer.weight.float()) * scale * layer.weight_scale
    out = out if bias is None else out + bias.float()
    return out.to(x.dtype).view(*x.shape[:-1], -1)


def install() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    method = "sglang.srt.layers.quantization.fp8.Fp8LinearMethod"
    HookRegistry.register(f"{method}.process_weights_after_loading", quantise_weight, HookType.AROUND)
    HookRegistry.register(f"{method}.apply", product, HookType.AROUND)
