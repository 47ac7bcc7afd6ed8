"""Kernel or naive form?"""

from __future__ import annotations

import os

import torch

SWITCH = "DSPINE_KERNELS"
SERVED = (torch.bfloat16, torch.float32)  # un-normalised float16 features could overflow


def use_kernels(tensor: torch.Tensor) -> bool:
    """Whether the kernels take over for tensors like this one: on a GPU, in BF16 or FP32, unless switched off."""
    return tensor.is_cuda and tensor.dtype in SERVED and kernels_wanted()


def runs_kernels(tensor: torch.Tensor) -> bool:
    """Whether a Triton kernel can take this tensor at all: on a GPU, or wherever it is under Triton's interpreter."""
    return tensor.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"


def kernels_wanted() -> bool:
    return os.environ.get(SWITCH, "1") != "0"
