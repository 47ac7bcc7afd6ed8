"""The machine: GPU to backends, compiler, caches."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from ..algorithm.backends import draft_attention_backend
from ..preflight.finding import FAIL, OK, WARN, Finding
from ..serve.hardware import Gpu
from ..serve.profile import choose_profile

ROOM = 20_000_000_000  # a first start compiles and tunes into the caches
# backend -> module without which SGLang cannot run it, and the distribution that brings it
NEEDS = {
    "fa3": ("sgl_kernel", "sglang-kernel"),
    "fa4": ("cutlass", "nvidia-cutlass-dsl"),
    "triton": ("triton", "triton"),
}


def look_at_machine(gpu: Gpu | None) -> list[Finding]:
    return [_backends(gpu), *([_compiler()] if gpu is not None else []), *_caches()]


def _backends(gpu: Gpu | None) -> Finding:
    """Capability to backend (report 28), and whether what it needs is installed."""
    choice = draft_attention_backend(None if gpu is None else gpu.capability)
    found = f"draft attention {choice.backend} ({choice.reason}); profile {choose_profile(gpu, True).name}"
    module, package = NEEDS.get(choice.backend, ("sys", ""))
    if gpu is not None and not _present(module):
        todo = f"pip install {package}, or pass --speculative-draft-attention-backend triton"
        return Finding(FAIL, "backends", f"{found}; {module} is not installed", todo)
    return Finding(OK, "backends", found)


def _present(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent
        return False


def _compiler() -> Finding:
    """FlashInfer and SGLang build kernels for this GPU at the first start."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path=f"{home}/bin")
    if nvcc is None:
        return Finding(
            WARN, "compiler", f"no nvcc on PATH or in {home}", "install the CUDA 13 toolkit, or set CUDA_HOME"
        )
    return Finding(OK, "compiler", nvcc)


def _caches() -> list[Finding]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    there = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if not os.access(there, os.W_OK):
        todo = "make it writable, or set HOME or XDG_CACHE_HOME; without it every start compiles again"
        return [Finding(FAIL, "caches", f"{cache} cannot be written", todo)]
    if free < ROOM:
        return [
            Finding(
                WARN, "caches", f"{cache}: {free / 1e9:.0f} GB of disk left", "a first start may need 20 GB; free some"
            )
        ]
    return [Finding(OK, "caches", f"{cache}, {free / 1e9:.0f} GB of disk left")]
