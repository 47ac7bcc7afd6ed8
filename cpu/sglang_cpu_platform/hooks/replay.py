"""ReplaySSM's verify and cursors, which SGLang does in Triton. Its fold is left to whoever brings one that runs here.

Under Triton's interpreter SGLang's own run, a few hundred times slower.
"""

from __future__ import annotations

import os

RINGS = "sglang.kernels.ops.attention.linear.gdn_replayssm_spec_decode"


def install() -> None:
    if os.environ.get("TRITON_INTERPRET") == "1":
        return
    from sgl_kernel.replay import advance, verify
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    functions = {"gdn_replayssm_spec_decode": verify, "commit_gdn_replayssm_spec": advance}
    for name, function in functions.items():
        HookRegistry.register(f"{RINGS}.{name}", function, HookType.REPLACE)
