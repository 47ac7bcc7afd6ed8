"""A row's result must not depend on how many rows are computed beside it.

Exactness is claimed in tokens, and a target whose decode step of one row rounds otherwise than its verify step of
sixteen can break a near-tie either way. Three places in SGLang's layers do so on a CPU:

- a matrix product of few rows takes another kernel, with another order of summation: give it more rows;
- so does the product with the output head;
- PyTorch's float32 SiLU differs in the last bit with an element's place in the tensor: take it in float64.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

ROWS = 8  # the kernels seen differ below 4 rows


def padded(product, x: torch.Tensor) -> torch.Tensor:
    """product(x) [rows, ...] for x [rows, D], computed with at least ROWS rows."""
    missing = ROWS - x.shape[0]
    if x.dim() != 2 or missing <= 0:
        return product(x)
    return product(F.pad(x, (0, 0, 0, missing)))[: x.shape[0]]


def linear(original, self, layer, x, bias=None):
    return padded(lambda rows: original(self, layer, rows, bias), x)


def output_head(original, self, hidden_states, *args, **kwargs):
    kwargs.pop("out", None)  # a buffer for the unpadded rows; the caller uses what is returned
    return padded(lambda rows: original(self, rows, *args, **kwargs), hidden_states)


def silu_and_mul(original, self, x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate.double()).to(x.dtype) * up


def install() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    layers = "sglang.srt.layers"
    for target, hook in {
        f"{layers}.quantization.unquant.UnquantizedLinearMethod.apply": linear,
        f"{layers}.logits_processor.LogitsProcessor._compute_lm_head": output_head,
        f"{layers}.activation.SiluAndMul.forward_native": silu_and_mul,
    }.items():
        HookRegistry.register(target, hook, HookType.AROUND)
