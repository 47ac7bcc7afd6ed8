"""The drafter's numbers, as its checkpoint states them."""

from __future__ import annotations

from dataclasses import dataclass

ARCHITECTURE = "DSpineDraftModel"  # as config.json names it


@dataclass(frozen=True)
class DraftConfig:
    """Shapes and ids of one DSpine drafter (symbols of the paper in brackets)."""

    hidden_size: int  # [H] same as the target's
    num_layers: int  # [L]
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int  # [V] same as the target's
    block_size: int  # [B] row 0 is the anchor, rows 1..B-1 are proposals
    mask_token_id: int
    target_layer_ids: tuple[int, ...]  # taps: target layers whose output is captured
    num_target_layers: int | None
    transfer_rank: int  # [r]
    message_size: int  # [m]
    top_k: int  # [K] candidates per row
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: dict | None  # YaRN with every default spelled out (see rope.py); None for plain RoPE
    max_position_embeddings: int
    layer_types: tuple[str, ...]  # "full_attention" or "sliding_attention", one a layer
    sliding_window: int | None  # row q sees context positions >= q - (window - 1)

    @property
    def num_proposals(self) -> int:
        """Proposals a block yields: B - 1 (15 for b16)."""
        return self.block_size - 1

    @property
    def rope_range(self) -> int:
        """Positions 0 .. rope_range - 1 lie inside the range the drafter's RoPE was made for."""
        if self.rope_scaling is None:
            return self.max_position_embeddings
        return int(self.rope_scaling["factor"] * self.rope_scaling["original_max_position_embeddings"])

    def window_of(self, layer: int) -> int | None:
        """Attention window of a layer in positions, or None for full attention."""
        return self.sliding_window if self.layer_types[layer] == "sliding_attention" else None
