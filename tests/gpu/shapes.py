"""Config folders without weights (`--load-format dummy`): a hybrid target of 27B parameters, and a drafter for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TARGET, DRAFT = "shape-27b", "shape-27b-dspine"
VOCAB, HIDDEN, INNER, LAYERS = 248_320, 5_120, 17_408, 64
COMMON: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": INNER, "max_position_embeddings": 262_144,
    "hidden_act": "silu", "rms_norm_eps": 1e-6, "attention_bias": False, "tie_word_embeddings": False,
}  # fmt: skip


def write_shapes(folder: Path) -> None:
    """`folder`/shape-27b and `folder`/shape-27b-dspine."""
    for name, config in ((TARGET, target_config()), (DRAFT, draft_config())):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def target_config() -> dict[str, Any]:
    """Qwen3.5's form: three gated-delta layers, then one of full attention, sixteen times."""
    return {
        **COMMON, "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "dtype": "bfloat16",
        "num_hidden_layers": LAYERS, "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256,
        "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "attn_output_gate": True,
        "full_attention_interval": 4, "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * (LAYERS // 4),
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
        "eos_token_id": 248_044, "pad_token_id": 248_044, "bos_token_id": None,
    }  # fmt: skip


def draft_config(block: int = 16) -> dict[str, Any]:
    """Five causal layers with a window of 8,192, taps after target layers 5 to 61, bridge of rank 1,024 and 512."""
    layers = 5
    return {
        **COMMON, "architectures": ["DSpineDraftModel"], "model_type": "qwen3", "torch_dtype": "bfloat16",
        "num_hidden_layers": layers, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "rope_theta": 1e7, "num_target_layers": LAYERS, "is_causal": True, "use_sliding_window": True,
        "sliding_window": 8_192, "layer_types": ["sliding_attention"] * layers, "block_size": block,
        "dflash_config": {"mask_token_id": 248_070, "target_layer_ids": [5, 19, 33, 47, 61], "block_size": block},
        "dspine_config": {"transfer_rank": 1_024, "message_size": 512, "top_k": 16},
    }  # fmt: skip
