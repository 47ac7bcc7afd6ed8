"""The pool of a Gated DeltaNet target with rings, which SGLang refuses to DFLASH and DSPARK (sglang#36683)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from .fold import commit
from .rings import require_rings, ring_rows
from .sources import COMMIT, require_hook

logger = logging.getLogger(__name__)
ALGORITHMS = ("DFLASH", "DSPARK")


def build_pool(original: Callable[..., Any], configurator: Any, **sizes: Any) -> Any:
    """In place of `_build_hybrid_req_pool`: the refusal asks only whether there is a KDA config."""
    from sglang.srt.runtime_context import get_exec, get_spec

    asked = get_exec().mamba.enable_linear_replayssm_spec
    algorithm = (get_spec().speculative_algorithm or "").upper()
    gdn = configurator.hybrid_gdn_config is not None and configurator.hybrid_kda_config is None
    if not (asked and gdn and algorithm in ALGORITHMS):
        return original(configurator, **sizes)
    require_hook(COMMIT, commit)
    require_static_verify()
    configurator.hybrid_kda_config = configurator.hybrid_gdn_config
    try:
        pool = original(configurator, **sizes)
    finally:
        configurator.hybrid_kda_config = None
    require_rings(pool.mamba_pool)
    logger.info("%s: ReplaySSM for a Gated DeltaNet target, rings of %d rows", algorithm, ring_rows(pool.mamba_pool))
    return pool


def require_static_verify() -> None:
    """SGLang's check of ragged verify believes that DFLASH and DSPARK with this flag mean KDA."""
    from sglang.srt.speculative.ragged_verify import RaggedVerifyMode, read_ragged_verify_mode

    mode = read_ragged_verify_mode()
    if mode is not RaggedVerifyMode.STATIC:
        raise ValueError(
            f"SGLANG_RAGGED_VERIFY_MODE={mode.value}: the rings of a Gated DeltaNet target take blocks of one width; "
            "pass static"
        )
