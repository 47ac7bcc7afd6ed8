"""Sizes of a 27B hybrid target (Qwen3.5 style), and what a verify step of it must move and compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .budget import Stage
from .rounds.shapes import target


@dataclass(frozen=True)
class Target:
    """Gated-delta layers with one of full attention among every few."""

    hidden: int
    layers: int
    attention_layers: int
    heads: int
    kv_heads: int
    head_dim: int
    key_heads: int
    value_heads: int
    linear_dim: int
    intermediate: int
    vocab: int

    @classmethod
    def of(cls, config: dict[str, Any]) -> Target:
        """Sizes in a Qwen3.5 config.json."""
        return cls(
            hidden=config["hidden_size"], layers=config["num_hidden_layers"],
            attention_layers=config["layer_types"].count("full_attention"),
            heads=config["num_attention_heads"], kv_heads=config["num_key_value_heads"], head_dim=config["head_dim"],
            key_heads=config["linear_num_key_heads"], value_heads=config["linear_num_value_heads"],
            linear_dim=config["linear_key_head_dim"], intermediate=config["intermediate_size"],
            vocab=config["vocab_size"],
        )  # fmt: skip

    @property
    def weights(self) -> int:
        """Numbers of all layers' linears."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = self.hidden * (2 * q + 2 * kv) + q * self.hidden  # the output gate doubles q
        key, value = self.key_heads * self.linear_dim, self.value_heads * self.linear_dim
        linear = self.hidden * (2 * key + 2 * value + 2 * self.value_heads) + value * self.hidden
        mlp = 3 * self.hidden * self.intermediate
        recurrent = self.layers - self.attention_layers
        return self.attention_layers * attention + recurrent * linear + self.layers * mlp

    @property
    def state(self) -> int:
        """Numbers of one request's recurrent states."""
        return (self.layers - self.attention_layers) * self.value_heads * self.linear_dim**2


TARGET_27B = Target.of(target())


def verify_round(batch: int, width: int, context: int, ranks: int = 1, t: Target = TARGET_27B) -> list[Stage]:
    """One rank's stages: FP8 layers, BF16 head, states, KV and activations. KV heads are split as far as they go."""
    rows, shared = batch * width, min(ranks, t.kv_heads)
    position = t.attention_layers * 2 * t.kv_heads * t.head_dim  # numbers of K and V
    products = 4 * t.attention_layers * t.heads * t.head_dim * (context + (width + 1) / 2)
    return [
        Stage("target layers", t.weights / ranks, 2 * rows * t.weights / ranks, fp8=True),
        Stage("target attention", 2 * batch * (context + width) * position / shared, rows * products / ranks),
        Stage("target states", 2 * batch * t.state / ranks, 4 * rows * t.state / ranks),
        Stage(
            "target head",
            2 * t.vocab * t.hidden / ranks + 2 * rows * t.vocab / ranks,
            2 * rows * t.vocab * t.hidden / ranks,
        ),
    ]
