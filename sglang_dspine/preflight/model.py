"""A target's numbers, from its config.json: what the drafter must match and what memory it takes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .state import Recurrent, read_recurrent


@dataclass(frozen=True)
class Target:
    """Fields that a config does not state are None."""

    folder: Path
    hidden: int | None
    vocab: int | None
    layers: int | None
    kv_heads: int | None
    head_dim: int | None
    attention_layers: int | None
    context: int | None
    recurrent: Recurrent | None
    quantised: str | None  # "NVFP4", "FP8", ... or None
    head_quantised: bool  # whether lm_head may be; a copy of its rows is then kept
    kv_fp8: bool  # the checkpoint asks for an FP8 KV cache

    @property
    def is_fp4(self) -> bool:
        return self.quantised is not None and "FP4" in self.quantised


def read_target(folder: Path) -> Target:
    """Raises OSError or ValueError when there is no config.json or it is no JSON object."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise ValueError("config.json is no JSON object")
    text = config.get("text_config") or config
    layers, heads, hidden = (_int(text, key) for key in ("num_hidden_layers", "num_attention_heads", "hidden_size"))
    quantisation = _quantisation(folder, config)
    algo = quantisation.get("quant_algo") or quantisation.get("quant_method")
    kinds = text.get("layer_types") or ()
    recurrent = read_recurrent(text, layers or 0)
    attention = list(kinds).count("full_attention") if kinds else layers
    if recurrent is not None and not kinds and layers:
        attention = layers - recurrent.layers
    return Target(
        folder=folder,
        hidden=hidden,
        vocab=_int(text, "vocab_size"),
        layers=layers,
        kv_heads=_int(text, "num_key_value_heads") or heads,
        head_dim=_int(text, "head_dim") or (hidden // heads if hidden and heads else None),
        attention_layers=attention,
        context=_int(text, "max_position_embeddings"),
        recurrent=recurrent,
        quantised=str(algo).upper() if algo else None,
        head_quantised=bool(algo) and "lm_head" not in json.dumps(_excluded(quantisation)),
        kv_fp8=_kv_fp8(quantisation),
    )


def _int(config: dict[str, Any], key: str) -> int | None:
    value = config.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _quantisation(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """ModelOpt writes a file of its own beside, or instead of, the config's section."""
    try:
        beside = json.loads((folder / "hf_quant_config.json").read_text(encoding="utf-8"))["quantization"]
    except (OSError, ValueError, KeyError, TypeError):
        beside = {}
    found = {**(config.get("quantization_config") or {}), **beside}
    return {**found, **found.get("quantization", {})} if isinstance(found.get("quantization"), dict) else found


def _excluded(quantisation: dict[str, Any]) -> list[Any]:
    return [quantisation.get(key) for key in ("ignore", "exclude_modules", "modules_to_not_convert")]


def _kv_fp8(quantisation: dict[str, Any]) -> bool:
    scheme = quantisation.get("kv_cache_scheme")
    bits = isinstance(scheme, dict) and scheme.get("num_bits") == 8
    return quantisation.get("kv_cache_quant_algo") == "FP8" or bits
