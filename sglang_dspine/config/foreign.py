"""Config entries of other drafters that would change what is computed: refused, never ignored."""

from __future__ import annotations

from .fields import ABSENT, Fields, show

# path -> values that leave the computation as DSpine defines it
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "hidden_act": ("silu",),
    "attention_bias": (False,),
    "partial_rotary_factor": (1, 1.0),
    "rope_is_neox_style": (True,),
    "is_neox_style": (True,),
    "dflash_config.causal": (True,),
    "dflash_config.attention_mode": ("gqa", "mha"),
    "dflash_config.attention_modes": (),
    "dflash_config.projector_type": ("linear", "none"),
    "dflash_config.conv_kernel_size": (0,),
    "dflash_config.selector_rank": (0,),
    "dflash_config.output_multiplier": (1, 1.0),
    "dflash_config.final_logit_softcapping": (0, 0.0),
    "dflash_config.attention_sink_bias": (False,),
    "dflash_config.attention_value_scale": (1, 1.0),
    "dflash_config.shift_label": (False,),
    "dflash_config.pure_draft_prefix_len": (0,),
}


def refuse_foreign(fields: Fields) -> None:
    """Note a problem for each entry that DSpine does not implement."""
    if fields.at("quantization_config") is not ABSENT:
        fields.fault(
            "quantization_config is present",
            expected="no such entry",
            found=show(fields.at("quantization_config")),
            hint="SGLang would take over the loading and read the weights its own way; "
            "the FP8 layout needs no such entry, its scales are weight_scale tensors: remove it",
        )
    for path, neutral in _NEUTRAL.items():
        value = fields.at(path)
        # 0 == False and 1 == True in Python: a value of the wrong type must not pass as neutral
        if value is not ABSENT and not any(value == good and type(value) is type(good) for good in neutral):
            fields.fault(
                f"{path} asks for something a DSpine drafter does not compute",
                expected=" or ".join(map(repr, neutral)) or "no such entry",
                found=show(value),
            )
