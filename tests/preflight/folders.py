"""Small model folders, and the published pair's numbers with hollow weights."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

HYBRID_27B: dict[str, Any] = {  # the shapes of a Qwen3.5-style hybrid of 27 B parameters
    "model_type": "qwen3_5_text", "hidden_size": 5120, "num_hidden_layers": 64, "vocab_size": 248320,
    "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 262144,
    "linear_num_value_heads": 48, "linear_num_key_heads": 16, "linear_value_head_dim": 128,
    "linear_key_head_dim": 128, "linear_conv_kernel_dim": 4,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 16,
}  # fmt: skip

SMALL: dict[str, Any] = {  # the same in a size that any machine has room for
    "hidden_size": 64, "num_hidden_layers": 4, "vocab_size": 272, "num_attention_heads": 4, "num_key_value_heads": 1,
    "head_dim": 16, "linear_num_value_heads": 2, "linear_num_key_heads": 1, "max_position_embeddings": 8192,
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
}  # fmt: skip


def hollow(path: Path, size: int) -> None:
    """A safetensors file of one tensor of `size` bytes that takes no room on disk."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)


def target(folder: Path, size: int = 1000, **changes: Any) -> Path:
    """A target's folder with `size` bytes of weights; changes to the config, None removes a field."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {key: value for key, value in (HYBRID_27B | changes).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    hollow(folder / "model.safetensors", size)
    return folder
