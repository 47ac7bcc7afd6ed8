"""SGLang 0.5.23 on a CPU without AMX: a platform class, and hooks where SGLang would launch a GPU kernel.

Two entry points lead here. Both do nothing when PyTorch sees a CUDA GPU.
"""

from __future__ import annotations


def activate() -> str | None:
    """Entry point of group `sglang.srt.platforms`: the platform class, or None on a GPU machine."""
    import torch

    return None if torch.cuda.is_available() else "sglang_cpu_platform.platform.PlainCpuPlatform"


def register() -> None:
    """Entry point of group `sglang.srt.plugins`: installs the hooks in this process."""
    import torch

    if not torch.cuda.is_available():
        from .hooks import install

        install()
