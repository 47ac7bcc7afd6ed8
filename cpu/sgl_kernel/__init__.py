"""Stand-in for SGLang's CPU kernel library: plain PyTorch, for machines without a GPU.

SGLang's CPU path calls its kernels in two ways, and both end here: by name from this module, and through
``torch.ops.sgl_kernel``. Only what SGLang 0.5.23 reaches for dense and Qwen3.5 targets, alone or with a
DFLASH-family drafter, is implemented. Results are float32 arithmetic in a fixed order; speed is not a goal.
"""

from __future__ import annotations

import torch

__version__ = "0.4.10"  # the version of the real library that SGLang 0.5.23 pins

if torch.cuda.is_available():
    raise ImportError(
        "sgl_kernel here is the CPU stand-in (distribution sglang-dspine-cpu), found on a machine with a "
        "CUDA GPU; expected SGLang's own kernels. Run: pip uninstall sglang-dspine-cpu && "
        "pip install --force-reinstall sglang-kernel"
    )

from . import attention, conv, gated_delta, gating, hashing, norms
from .kv import assign_extend_cache_locs_cpu, assign_req_to_token_pool_cpu, copy_all_layer_kv_cache_cpu

for _module in (attention, gated_delta, gating, hashing, norms):
    for _name in _module.OPS:
        setattr(torch.ops.sgl_kernel, _name, getattr(_module, _name))

__all__ = [
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "conv",
    "copy_all_layer_kv_cache_cpu",
]


def __getattr__(name: str):
    """SGLang imports kernels by name that a CPU run never calls: let the import pass, refuse the call."""
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*args, **kwargs):
        raise NotImplementedError(f"sgl_kernel.{name} has no CPU stand-in (distribution sglang-dspine-cpu)")

    missing.__name__ = name
    return missing
