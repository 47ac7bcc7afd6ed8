"""Do this package's kernels compile for the GPU? Needs none: Triton brings its compiler along."""

from __future__ import annotations

import time

from ..preflight.finding import FAIL, OK, WARN, Finding
from ..serve.hardware import Gpu

OFF = "set DSPINE_KERNELS=0 to serve with the plain PyTorch forms, and report this"


def look_at_kernels(gpu: Gpu | None) -> Finding:
    """Compile each kernel once, for this GPU's capability; without a GPU, for all that kernels.report knows."""
    try:
        from ..kernels import report
    except ImportError as error:
        return Finding(
            FAIL, "kernels", f"cannot be loaded: {error}", "install sglang==0.5.23, which brings torch and triton"
        )
    known = sorted(report.SHARED_LIMIT)
    wanted = known if gpu is None else [10 * gpu.capability[0] + gpu.capability[1]]
    if not set(wanted) <= set(known):
        found = f"sm_{wanted[0]} is none of those they were made for, {', '.join(f'sm_{one}' for one in known)}"
        return Finding(WARN, "kernels", found, OFF)
    began, count = time.monotonic(), 0
    for capability in wanted:
        for _, launch in report.cases(quick=True):
            try:
                fits = report.fits(report.usage(launch, capability), capability)
            except Exception as error:  # a compiler's: of many kinds, and each means the same here
                return Finding(FAIL, "kernels", f"{launch.name} does not compile for sm_{capability}: {error}", OFF)
            if not fits:
                return Finding(WARN, "kernels", f"{launch.name} spills on sm_{capability}: slow, not wrong", OFF)
            count += 1
    named = ", ".join(f"sm_{capability}" for capability in wanted)
    return Finding(OK, "kernels", f"{count} compiled for {named} in {time.monotonic() - began:.0f} s, none spills")
