"""Let ReplaySSM rings be folded by our own kernel: SGLang's lets a bad number of a rejected row into the state."""

from __future__ import annotations

import logging

from ..kernels.ring_fold import commit_rings
from ..kernels.switch import kernels_wanted

logger = logging.getLogger(__name__)


def fold_with_own_kernel() -> None:
    """For this process, which serves DSPINE alone: SGLang looks the function up in its module at every commit."""
    from sglang.kernels.ops.attention.linear import gdn_replayssm_spec_decode as module

    if kernels_wanted():
        module.commit_gdn_replayssm_circular = commit_rings
        logger.info("DSPINE: ReplaySSM rings are folded by a kernel that never reads rejected rows' values")
