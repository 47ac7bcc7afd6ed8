"""RoPE as the checkpoint states it: plain, or YaRN with every default spelled out."""

from __future__ import annotations

import math
from typing import Any

from .fields import ABSENT, Fields, show

_YARN_KEYS = {
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "original_max_position_embeddings",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "truncate",
}
_DEFAULT_KEYS = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}


def read_rope(fields: Fields) -> dict[str, Any]:
    """`rope_theta` and `rope_scaling` of DraftConfig.

    The scaling may stand in `rope_parameters` (transformers 5) or `rope_scaling` (before); a kind that
    is neither plain nor YaRN is refused, and so is a parameter that would change the angles unseen.
    """
    theta = fields.number("rope_parameters.rope_theta", "rope_theta", "rope_scaling.rope_theta", low=1.0)
    places = [place for place in ("rope_parameters", "rope_scaling") if fields.at(place) is not ABSENT]
    scalings = [_read_scaling(fields, place) for place in places]
    if len(scalings) == 2 and scalings[0] != scalings[1]:
        fields.fault(
            "rope_parameters and rope_scaling contradict each other",
            expected=f"rope_scaling = {show(scalings[0])}",
            found=show(scalings[1]),
        )
    return {"rope_theta": theta, "rope_scaling": scalings[0] if scalings else None}


def _read_scaling(fields: Fields, place: str) -> dict[str, Any] | None:
    given = fields.at(place)
    if not isinstance(given, dict):
        fields.fault(f"{place} is no object", expected="a JSON object", found=show(given))
        return None
    kind = fields.agreed(f"{place}.rope_type", f"{place}.type", required=False)
    if kind is ABSENT and not set(given) - _DEFAULT_KEYS:
        kind = "default"  # rope_theta alone
    if kind == "default":
        _refuse_keys(fields, place, given, _DEFAULT_KEYS)
        return None
    if kind == "yarn":
        _refuse_keys(fields, place, given, _YARN_KEYS)
        return _read_yarn(fields, place)
    fields.fault(
        f"{place}.rope_type is not supported",
        expected="default or yarn",
        found="nothing" if kind is ABSENT else show(kind),
    )
    return None


def _refuse_keys(fields: Fields, place: str, given: dict[str, Any], known: set[str]) -> None:
    unknown = sorted(key for key, value in given.items() if key not in known and value is not None)
    if unknown:
        fields.fault(
            f"{place} has parameters this drafter's RoPE does not know",
            expected=sorted(known),
            found=show(unknown),
        )
    if fields.at(f"{place}.partial_rotary_factor") not in (ABSENT, 1, 1.0):
        fields.fault(
            f"{place}.partial_rotary_factor is not 1",
            expected=1.0,
            found=show(given["partial_rotary_factor"]),
        )


def _read_yarn(fields: Fields, place: str) -> dict[str, Any] | None:
    factor = fields.number(f"{place}.factor")
    original = fields.integer(f"{place}.original_max_position_embeddings")
    beta_fast = fields.number(f"{place}.beta_fast", required=False)
    beta_slow = fields.number(f"{place}.beta_slow", required=False)
    attention = fields.number(f"{place}.attention_factor", required=False)
    mscale = fields.number(f"{place}.mscale", required=False)
    mscale_all = fields.number(f"{place}.mscale_all_dim", required=False)
    truncate = fields.flag(f"{place}.truncate")
    if factor is None or original is None:
        return None
    if factor < 1:
        fields.fault(f"{place}.factor is below 1", expected="at least 1", found=factor)
    if attention is None:
        if mscale and mscale_all:
            attention = _magnitude(factor, mscale) / _magnitude(factor, mscale_all)
        else:
            attention = _magnitude(factor, 1.0)
    return {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": original,
        "attention_factor": attention,  # multiplies cos and sin
        "beta_fast": beta_fast or 32.0,
        "beta_slow": beta_slow or 1.0,
        "truncate": truncate is not False,
    }


def _magnitude(factor: float, mscale: float) -> float:
    """YaRN's attention temperature (arXiv 2309.00071, section 3.4), scaled by mscale."""
    return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0


def sglang_rope_scaling(rope_scaling: dict[str, Any] | None) -> dict[str, Any] | None:
    """DraftConfig.rope_scaling as SGLang's get_rope takes it.

    SGLang computes YaRN's default magnitude itself and reads no `attention_factor`, only an
    `attn_factor` that multiplies the default (layers/rotary_embedding/yarn.py).
    """
    if rope_scaling is None:
        return None
    scaling = dict(rope_scaling)
    attention = scaling.pop("attention_factor")
    return scaling | {"attn_factor": attention / _magnitude(scaling["factor"], 1.0)}
