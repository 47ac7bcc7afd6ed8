"""What must be known of a target before SGLang reads it."""

from __future__ import annotations

import json
from pathlib import Path

from .failure import ServeError


def is_recurrent(folder: Path) -> bool:
    """True when the target's config names linear-attention layers. Raises ServeError for a folder that is no model."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ServeError(f"MODEL={folder}: no readable config.json ({error}); expected a target's folder") from None
    text = config.get("text_config") or config
    return "linear_attention" in (text.get("layer_types") or ()) or "linear_num_value_heads" in text
