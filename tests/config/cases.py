"""Valid configs as JSON, and edits of them."""

from __future__ import annotations

import copy
from typing import Any

from sglang_dspine.config import render_config
from tests.support.checkpoints import SLIDING, TINY

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


def raw_config(base: str = "full", **changes: object) -> dict[str, Any]:
    """A valid config.json; `dflash_config__block_size=8` edits a section, None removes an entry."""
    raw = copy.deepcopy(render_config({"full": TINY, "sliding": SLIDING}[base]))
    for key, value in changes.items():
        *sections, last = key.split("__")
        node = raw
        for section in sections:
            node = node[section]
        if value is None:
            node.pop(last, None)
        else:
            node[last] = value
    return raw
