"""Folders with a config.json only: a 27B hybrid target and drafters of three families, for `--load-format dummy`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...config import DraftConfig, render_config

VOCAB, HIDDEN, LAYERS, INTERMEDIATE, MASK = 248320, 5120, 64, 17408, 248070
TAPS = (5, 19, 33, 47, 61)  # any five layers far apart: the cost does not depend on which


def target() -> dict[str, Any]:
    """Three gated-delta layers to one of full attention (Qwen3.5 style)."""
    return {
        "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text",
        "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE, "num_hidden_layers": LAYERS,
        "layer_types": ["full_attention" if (i + 1) % 4 == 0 else "linear_attention" for i in range(LAYERS)],
        "full_attention_interval": 4, "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256,
        "attn_output_gate": True, "attention_bias": False,
        "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_num_value_heads": 48,
        "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
        "hidden_act": "silu", "rms_norm_eps": 1e-6, "max_position_embeddings": 262144, "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
        "bos_token_id": None, "eos_token_id": VOCAB - 1, "pad_token_id": VOCAB - 1, "dtype": "bfloat16",
    }  # fmt: skip


def dspine() -> dict[str, Any]:
    shape = DraftConfig(
        hidden_size=HIDDEN, num_layers=5, num_heads=32, num_kv_heads=8, head_dim=128, intermediate_size=INTERMEDIATE,
        vocab_size=VOCAB, block_size=16, mask_token_id=MASK, target_layer_ids=TAPS, num_target_layers=LAYERS,
        transfer_rank=1024, message_size=512, top_k=16, rms_norm_eps=1e-6, rope_theta=1e7, rope_scaling=None,
        max_position_embeddings=262144, layer_types=("sliding_attention",) * 5, sliding_window=8192,
    )  # fmt: skip
    return render_config(shape) | {"dtype": "bfloat16"}


def rival(architecture: str, block: int, dflash: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A drafter of another family on the same five layers, with the window those were trained with."""
    common = {k: v for k, v in dspine().items() if k not in ("dspine_config", "is_causal", "architectures")}
    common |= {"architectures": [architecture], "block_size": block, "sliding_window": 2048}
    taps = {"mask_token_id": MASK, "target_layer_ids": list(TAPS), "block_size": block}
    return common | {"dflash_config": taps | dflash} | more


def dflash2() -> dict[str, Any]:
    selector = {"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 256, "selector_top_k": 16}
    return rival("DFlash2DraftModel", 8, selector)


def dspark() -> dict[str, Any]:
    markov = {"markov_rank": 256, "markov_head_type": "vanilla", "enable_confidence_head": False}
    return rival("Qwen3DSparkModel", 7, {}, **markov)


def write_shapes(folder: Path) -> None:
    """target/, dspine/, dflash2/ and dspark/ below `folder`."""
    for name, config in (("target", target()), ("dspine", dspine()), ("dflash2", dflash2()), ("dspark", dspark())):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps(config, indent=1))
