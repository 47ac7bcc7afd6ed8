"""Which flag to try when a server's first tokens are garbage (report 29)."""

from __future__ import annotations

from collections.abc import Sequence

from ..preflight.model import Target
from .hardware import Gpu

# (what the target's quantisation must contain, flag, value, why); the first that the command does not have is named
FALLBACKS = (
    (
        "FP4",
        "--fp4-gemm-backend",
        "marlin",
        "NVFP4 kernels of sm_12x have written garbage; Marlin keeps activations in BF16",
    ),
    ("FP8", "--fp8-gemm-backend", "triton", "runs on every GPU"),
    ("", "--attention-backend", "triton", "runs on every GPU"),
    ("", "--cuda-graph-backend-decode", "disabled", "tells whether a captured graph is at fault"),
)


def fallback(target: Target, gpu: Gpu | None, words: Sequence[str]) -> str:
    """What to start again with."""
    where = "" if gpu is None else f" on {gpu}"
    for part, flag, value, why in FALLBACKS:
        if part in (target.quantised or "") and flag not in words:
            return f"{target.quantised or 'unquantised'} target{where}: start again with -- {flag} {value} ({why})"
    return f"every fallback flag is set already{where}: try the target's unquantised checkpoint, and report this"
