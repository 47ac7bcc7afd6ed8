"""Layer types, window and causality of the draft's attention."""

from __future__ import annotations

from typing import Any

from .fields import ABSENT, Fields, show

FULL, SLIDING = "full_attention", "sliding_attention"


def read_attention(fields: Fields, num_layers: int | None) -> dict[str, Any]:
    """`layer_types` and `sliding_window` of DraftConfig; contradictions between the two are refused."""
    if fields.flag("is_causal") is False:
        fields.fault(
            "is_causal is false",
            expected="true, or no such field",
            found="false",
            hint="a DSpine block is causal: row i must not see rows after i",
        )
    types = _read_layer_types(fields, num_layers)
    return {"layer_types": types, "sliding_window": _read_window(fields, types)}


def _read_layer_types(fields: Fields, num_layers: int | None) -> tuple[str, ...] | None:
    listed = fields.listing("layer_types")
    if listed is None:
        return None
    unknown = [kind for kind in listed if kind not in (FULL, SLIDING)]
    if unknown:
        fields.fault("layer_types names an unknown kind", expected=f"{FULL} or {SLIDING}", found=show(unknown))
        return None
    if num_layers is not None and len(listed) != num_layers:
        fields.fault(
            "layer_types has another length than num_hidden_layers",
            expected=f"{num_layers} entries",
            found=f"{len(listed)}",
        )
    return tuple(listed)


def _read_window(fields: Fields, types: tuple[str, ...] | None) -> int | None:
    window = fields.integer("sliding_window", required=False)
    use = fields.flag("use_sliding_window")
    if types is None:
        return None
    if SLIDING not in types:
        # `use_sliding_window: false` beside a leftover number is how Qwen configs say "no window".
        if use or (use is None and fields.at("sliding_window") is not ABSENT):
            fields.fault(
                "a window is declared but layer_types are all full_attention",
                expected="sliding_attention layers, or sliding_window null",
                found=_window_as_stated(fields),
            )
        return None
    if use is not True or fields.at("sliding_window") is ABSENT:
        # transformers drops the number unless use_sliding_window is true, and SGLang then has none.
        fields.fault(
            "layer_types has sliding_attention without a window in force",
            expected="a positive sliding_window and use_sliding_window true",
            found=_window_as_stated(fields),
        )
    return window


def _window_as_stated(fields: Fields) -> str:
    window, use = fields.raw.get("sliding_window"), fields.raw.get("use_sliding_window")
    return f"sliding_window {show(window)}, use_sliding_window {show(use)}"
