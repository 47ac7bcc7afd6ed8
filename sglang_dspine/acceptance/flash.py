"""Configs and weights of the drafters that DSpine is compared with: DFlash, DFlash2 and DSpark, as SGLang reads them.

Sources: SGLang 0.5.23, `models/dflash.py`, `models/dspark.py`, `speculative/dflash_utils.py`. What a checkpoint asks
for beyond that family's plain form is refused by name, so that no figure comes from half a drafter.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from ..config import DraftConfig
from ..config.fields import ABSENT, Fields, show, unwrap
from ..config.rope import read_rope
from ..config.source import read_source
from ..errors import DSpineError

KINDS = {
    "DFlashDraftModel": "DFlash",
    "DFlash2DraftModel": "DFlash2",
    "DFlash2BeamDraftModel": "DFlash2",
    "Qwen3DSparkModel": "DSpark",
}
# path -> values that leave the computation as it is here; 0 == False in Python, so types are compared, too
NEUTRAL: dict[str, tuple[object, ...]] = {
    "quantization_config": (),
    "attention_bias": (False,),
    "dflash_config.attention_sink_bias": (False,),
    "dflash_config.attention_value_scale": (1, 1.0),
    "dflash_config.projector_type": ("linear", "none"),
    "use_gemma_norm": (False,),
    "partial_rotary_factor": (1, 1.0),
}


@dataclass(frozen=True)
class FlashConfig:
    """shapes: what the family shares with DSpine; its bridge's numbers are 0."""

    kind: str
    shapes: DraftConfig
    causal: tuple[bool, ...]  # of each layer, inside the block
    selector_rank: int = 0  # DFlash2
    conv_taps: int = 0
    conv_group: int = 0
    multiplier: float = 1.0  # of unary logits
    softcap: float = 0.0
    markov: str = ""  # DSpark: vanilla or gated
    from_anchor: bool = False  # DSpark: the anchor's own row proposes the first token

    @property
    def rows_spared(self) -> int:
        """A verify width asks for as many rows, the anchor's among them; one less where the anchor's proposes, too."""
        return 1 if self.from_anchor else 0


def is_flash(folder: Path) -> bool:
    raw = read_source(folder).raw
    return any(name in KINDS for name in raw.get("architectures") or ())


def read_flash(folder: Path) -> FlashConfig:
    """Raises CheckpointError with every field at fault, DSpineError for a form that is not implemented."""
    source = read_source(folder)
    fields = Fields(unwrap(source.raw, source.where), source.where)
    kind = next(KINDS[name] for name in fields.raw["architectures"] if name in KINDS)
    for path, neutral in NEUTRAL.items():
        value = fields.at(path)
        if value is not ABSENT and not any(value == good and type(value) is type(good) for good in neutral):
            fields.fault(f"{path} is not implemented here", expected="no such entry", found=show(value))
    layers = fields.integer("num_hidden_layers") or 1
    block = fields.integer("dflash_config.block_size", "block_size") or 1
    types = tuple(fields.raw.get("layer_types") or ["full_attention"] * layers)
    from_anchor = kind == "DSpark" and fields.raw.get("sample_from_anchor", True)
    values: dict[str, Any] = {
        "hidden_size": fields.integer("hidden_size"),
        "num_heads": fields.integer("num_attention_heads"),
        "num_kv_heads": fields.integer("num_key_value_heads"),
        "head_dim": fields.integer("head_dim"),
        "intermediate_size": fields.integer("intermediate_size"),
        "vocab_size": fields.integer("vocab_size"),
        "mask_token_id": fields.integer("dflash_config.mask_token_id", "mask_token_id", low=0),
        "target_layer_ids": tuple(fields.listing("dflash_config.target_layer_ids", "target_layer_ids") or ()),
        "rms_norm_eps": fields.number("rms_norm_eps"),
        "max_position_embeddings": fields.integer("max_position_embeddings"),
        "sliding_window": fields.integer("sliding_window") if "sliding_attention" in types else None,
    } | _rope(fields)
    fields.raise_problems()
    shapes = DraftConfig(
        **values,
        num_layers=layers,
        block_size=block + 1 if kind == "DSpark" else block,  # DSpark counts proposals, the others rows
        num_target_layers=None,
        transfer_rank=0,
        message_size=0,
        top_k=_part(fields, "selector_top_k", 0),
        layer_types=types,
    )
    markov = str(fields.raw.get("markov_head_type", "vanilla")) if kind == "DSpark" else ""
    if markov not in ("", "vanilla", "gated"):
        raise DSpineError(
            f"{source.where}: markov_head_type {markov!r} is not implemented here; expected vanilla or gated"
        )
    return FlashConfig(
        kind,
        shapes,
        _causal(fields.raw, types),
        selector_rank=_part(fields, "selector_rank", 0),
        conv_taps=_part(fields, "conv_kernel_size", 0),
        conv_group=_part(fields, "conv_group_size", 0),
        multiplier=float(_part(fields, "output_multiplier", 1.0)),
        softcap=float(_part(fields, "final_logit_softcapping", 0.0)),
        markov=markov,
        from_anchor=bool(from_anchor),
    )


def read_flash_weights(folder: Path, dtype: torch.dtype, device: str) -> dict[str, Tensor]:
    """Tensors by name; a `model.` in front of all is dropped."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise DSpineError(f"{folder}: no *.safetensors; expected a drafter's weights")
    found = {name: tensor for file in files for name, tensor in load_file(file).items()}
    return {name.removeprefix("model."): tensor.to(device, dtype) for name, tensor in found.items()}


def _causal(raw: dict[str, Any], types: tuple[str, ...]) -> tuple[bool, ...]:
    """As SGLang decides it: what the config says, else windows are causal and full attention is not."""
    stated = raw.get("is_causal")
    return tuple(bool(stated) if stated is not None else kind == "sliding_attention" for kind in types)


def _part(fields: Fields, name: str, usual: Any) -> Any:
    value = fields.at(f"dflash_config.{name}")
    return usual if value is ABSENT else value


def _rope(fields: Fields) -> dict[str, Any]:
    if fields.at("rope_parameters") is ABSENT and fields.at("rope_scaling") is ABSENT:
        return {"rope_theta": fields.number("rope_theta", low=1.0), "rope_scaling": None}
    return read_rope(fields)
