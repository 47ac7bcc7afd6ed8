"""`--enable-linear-replayssm-spec` for Gated DeltaNet targets under SGLang 0.5.23's own DFLASH and DSPARK.

SGLang refuses the pair (sglang#36683), because their commit knows the rings of KDA targets alone (sglang#35725). Two
hooks change that: `pool` lets the pool be built, `fold` commits them the way SGLang does for its other
algorithms (speculative/spec_utils.py). DSPINE needs neither. Needs only SGLang.
"""

from __future__ import annotations

from .fold import commit
from .pool import build_pool
from .sources import COMMIT, POOL, ReplayError, require_sources

__all__ = ["ReplayError", "register"]


def register() -> None:
    """Entry point of group `sglang.srt.plugins`. Raises ReplayError, and changes nothing, under other sources."""
    require_sources()
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for place, hook in ((POOL, build_pool), (COMMIT, commit)):
        HookRegistry.register(place.replace(":", "."), hook, HookType.AROUND)
