"""Does the drafter belong to the target that is being served? Asked once, before the draft is loaded."""

from __future__ import annotations

import logging
from typing import Any

from ..checkpoint.target import check_against_target, range_warning
from ..config.parse import load_config

logger = logging.getLogger(__name__)


def check_pair(target: Any) -> None:
    """Raise CheckpointError when the drafter is another target's; warn when its RoPE range is outrun (report 33).

    target: SGLang's ModelConfig of the target.
    """
    from sglang.srt.runtime_context import get_spec

    folder = get_spec().speculative_draft_model_path
    draft = load_config(folder)
    check_against_target(draft, target.hidden_size, target.vocab_size, target.num_hidden_layers, where=folder)
    warning = range_warning(draft, target.context_len)
    if warning is not None:
        logger.warning("DSPINE: %s", warning)
