"""DraftConfig back to the config.json of layout 1, as SGLang reads it."""

from __future__ import annotations

from typing import Any

from .draft import ARCHITECTURE, DraftConfig


def render_config(config: DraftConfig) -> dict[str, Any]:
    """A config.json in SpecForge form; `parse_config(render_config(c), ...) == c`."""
    rope = {"rope_theta": config.rope_theta, **(config.rope_scaling or {"rope_type": "default"})}
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "qwen3",
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.intermediate_size,
        "vocab_size": config.vocab_size,
        "hidden_act": "silu",
        "attention_bias": False,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_parameters": rope,
        "max_position_embeddings": config.max_position_embeddings,
        # SGLang takes a full_attention block for bidirectional unless this is said
        "is_causal": True,
        "layer_types": list(config.layer_types),
        "use_sliding_window": config.sliding_window is not None,
        "sliding_window": config.sliding_window,
        "num_target_layers": config.num_target_layers,
        "tie_word_embeddings": False,
        "block_size": config.block_size,
        "dflash_config": {
            "block_size": config.block_size,
            "mask_token_id": config.mask_token_id,
            "target_layer_ids": list(config.target_layer_ids),
        },
        "dspine_config": {
            "transfer_rank": config.transfer_rank,
            "message_size": config.message_size,
            "top_k": config.top_k,
        },
    }
