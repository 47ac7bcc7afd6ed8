"""Which tensors a drafter has, and what shape each must be."""

from __future__ import annotations

from ..config import DraftConfig
from .layouts import SCALE_SUFFIX, Layout

FLOATS = ("BF16", "F16", "F32")
FP8 = ("F8_E4M3",)
Shape = tuple[int, ...]


def expected_shapes(config: DraftConfig) -> dict[str, Shape]:
    """Canonical tensor name to shape: what `load_checkpoint` returns, whatever the layout.

    Linear weights are [out, in].
    """
    H, V, r, m = config.hidden_size, config.vocab_size, config.transfer_rank, config.message_size
    shapes: dict[str, Shape] = {
        "fc.weight": (H, len(config.target_layer_ids) * H),
        "hidden_norm.weight": (H,),
        "norm.weight": (H,),
        "injection.message.weight": (m, r),  # M
        "injection.receiver_gate.weight": (m, r),  # G_recv
        "injection.predecessor_gate.weight": (m, r),  # G_pred
        "injection.bias": (m,),  # b
        "transfer_codes": (V, r),  # unit rows
    }
    for layer in range(config.num_layers):
        shapes |= {f"layers.{layer}.{name}": shape for name, shape in _layer_shapes(config).items()}
        shapes[f"injection.readouts.{layer}.weight"] = (r, H)  # R_l
        shapes[f"injection.writes.{layer}.weight"] = (H, m)  # W_l
    return shapes


def _layer_shapes(config: DraftConfig) -> dict[str, Shape]:
    H, I = config.hidden_size, config.intermediate_size  # noqa: E741
    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    return {
        "input_layernorm.weight": (H,),
        "self_attn.q_proj.weight": (q, H),
        "self_attn.k_proj.weight": (kv, H),
        "self_attn.v_proj.weight": (kv, H),
        "self_attn.o_proj.weight": (H, q),
        "self_attn.q_norm.weight": (config.head_dim,),
        "self_attn.k_norm.weight": (config.head_dim,),
        "post_attention_layernorm.weight": (H,),
        "mlp.gate_proj.weight": (I, H),
        "mlp.up_proj.weight": (I, H),
        "mlp.down_proj.weight": (H, I),
    }


def is_fp8_linear(name: str) -> bool:
    """Whether layout 3 keeps this weight in FP8: the linears of the layers and fc."""
    return name == "fc.weight" or (name.startswith("layers.") and name.endswith("_proj.weight"))


def stored_tensors(config: DraftConfig, layout: Layout) -> dict[str, tuple[Shape, tuple[str, ...]]]:
    """Name to (shape, dtypes allowed) as the layout stores them: scales and the ready flag included."""
    table: dict[str, tuple[Shape, tuple[str, ...]]] = {}
    for name, shape in expected_shapes(config).items():
        if layout is Layout.FP8 and is_fp8_linear(name):
            table[name] = (shape, FP8)
            table[name + SCALE_SUFFIX] = ((shape[0], 1), ("F32",))
        else:
            table[name] = (shape, ("BF16",) if layout is Layout.FP8 else FLOATS)
    if layout is not Layout.REFERENCE:
        table["transfer_ready"] = ((), ("BOOL",))
    return table
