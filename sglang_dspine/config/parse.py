"""config.json of a drafter to DraftConfig: every number read, missing or contradictory ones refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from .attention import read_attention
from .draft import ARCHITECTURE, DraftConfig
from .fields import ABSENT, Fields, show, unwrap
from .foreign import refuse_foreign
from .rope import read_rope
from .source import read_source


def load_config(folder: str | Path) -> DraftConfig:
    """The drafter's numbers from a checkpoint folder in any of the three layouts.

    Raises CheckpointError naming config.json and every field at fault.
    """
    source = read_source(Path(folder))
    return parse_config(source.raw, source.where)


def parse_config(raw: dict[str, Any], where: str) -> DraftConfig:
    """Numbers of a config.json already read; `where` names it in errors.

    A file wrapped as {"config": {...}} is unwrapped. Raises one CheckpointError listing all problems.
    """
    fields = Fields(unwrap(raw, where), where)
    _check_kind(fields)
    refuse_foreign(fields)
    values = _read_shapes(fields) | _read_block(fields) | _read_bridge(fields)
    values |= read_attention(fields, values["num_layers"])
    values |= read_rope(fields)
    _check_together(fields, values)
    fields.raise_problems()
    return DraftConfig(**values)


def _check_kind(fields: Fields) -> None:
    architectures = fields.at("architectures")
    if architectures is ABSENT or not isinstance(architectures, list) or ARCHITECTURE not in architectures:
        found = "nothing" if architectures is ABSENT else show(architectures)
        fields.fault(
            "architectures names another model",
            expected=f"[{ARCHITECTURE!r}]",
            found=found,
            hint="is this a DSpine drafter?",
        )
    model_type = fields.at("model_type")
    if model_type != "qwen3":
        fields.fault(
            "model_type is not the one SGLang reads a DSpine config as",
            expected="'qwen3'",
            found="nothing" if model_type is ABSENT else show(model_type),
        )


def _read_shapes(fields: Fields) -> dict[str, Any]:
    return {
        "hidden_size": fields.integer("hidden_size"),
        "num_layers": fields.integer("num_hidden_layers"),
        "num_heads": fields.integer("num_attention_heads"),
        "num_kv_heads": fields.integer("num_key_value_heads"),
        "head_dim": fields.integer("head_dim", low=2),
        "intermediate_size": fields.integer("intermediate_size"),
        "vocab_size": fields.integer("vocab_size", low=2),
        "rms_norm_eps": fields.number("rms_norm_eps"),
        "max_position_embeddings": fields.integer("max_position_embeddings"),
    }


def _read_block(fields: Fields) -> dict[str, Any]:
    taps = fields.listing("dflash_config.target_layer_ids", "target_layer_ids")
    return {
        # 2 at least: an anchor and one proposal
        "block_size": fields.integer("dflash_config.block_size", "block_size", low=2),
        "mask_token_id": fields.integer("dflash_config.mask_token_id", "mask_token_id", low=0),
        "target_layer_ids": None if taps is None else tuple(taps),
        "num_target_layers": fields.integer("num_target_layers", "dflash_config.num_target_layers", required=False),
    }


def _read_bridge(fields: Fields) -> dict[str, Any]:
    return {
        "transfer_rank": fields.integer("dspine_config.transfer_rank"),
        "message_size": fields.integer("dspine_config.message_size"),
        "top_k": fields.integer("dspine_config.top_k"),
    }


def _check_together(fields: Fields, values: dict[str, Any]) -> None:
    vocab, heads, kv_heads = values["vocab_size"], values["num_heads"], values["num_kv_heads"]
    if heads and kv_heads and heads % kv_heads:
        fields.fault(
            "num_attention_heads is no multiple of num_key_value_heads",
            expected=f"a multiple of {kv_heads}",
            found=heads,
        )
    if values["head_dim"] and values["head_dim"] % 2:
        fields.fault("head_dim is odd", expected="an even number, RoPE turns pairs", found=values["head_dim"])
    if vocab:
        mask, top_k = values["mask_token_id"], values["top_k"]
        if mask is not None and mask >= vocab:
            fields.fault(
                "dflash_config.mask_token_id is no token of the vocabulary",
                expected=f"an id in [0, {vocab})",
                found=mask,
            )
        if top_k and top_k > vocab:
            fields.fault("dspine_config.top_k exceeds the vocabulary", expected=f"at most {vocab}", found=top_k)
        rank, hidden = values["transfer_rank"], values["hidden_size"]
        if rank and hidden and rank > min(hidden, vocab - 1):
            # the codes are principal directions of the target's head: there are no more of them
            most = min(hidden, vocab - 1)
            fields.fault("dspine_config.transfer_rank is too large", expected=f"at most {most}", found=rank)
    _check_taps(fields, values["target_layer_ids"], values["num_target_layers"])


def _check_taps(fields: Fields, taps: tuple[Any, ...] | None, layers: int | None) -> None:
    if taps is None:
        return
    name = "dflash_config.target_layer_ids"
    span = "layer ids >= 0" if layers is None else f"ids in [0, {layers})"
    stray = [tap for tap in taps if type(tap) is not int or tap < 0 or (layers is not None and tap >= layers)]
    if stray:
        fields.fault(f"{name} names layers the target does not have", expected=span, found=show(stray))
    elif any(later <= earlier for earlier, later in pairwise(taps)):
        fields.fault(
            f"{name} is not strictly increasing",
            expected="ascending ids, each once",
            found=show(list(taps)),
            hint="the target's layers are captured in their own order, and fc reads them so",
        )
