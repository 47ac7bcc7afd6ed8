"""Bytes of a recurrent (gated delta) state, as SGLang 0.5.23 allocates it (configs/mamba_utils.py, memory_pool.py).

H_v, H_k value and key heads; D_v, D_k their widths; K convolution width; W verify width; R ring length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .words import number_of, value_of

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
SLOTS, LAZY, OVERLAP = 3, 1, 2  # slots a running request; more with extra_buffer_lazy, with extra_buffer


@dataclass(frozen=True)
class Recurrent:
    """Shapes of one target's linear-attention layers."""

    layers: int
    value_heads: int
    key_heads: int
    value_dim: int
    key_dim: int
    kernel: int
    dtype: str  # of the state, as the config says; SGLang takes float32 when it says nothing

    def slot(self, ssm_bytes: int, conv_bytes: int = 2) -> int:
        """One saved state of one request."""
        conv = (self.value_heads * self.value_dim + 2 * self.key_heads * self.key_dim) * (self.kernel - 1)
        state = self.value_heads * self.value_dim * self.key_dim
        return self.layers * (conv * conv_bytes + state * ssm_bytes)

    def ring(self, length: int, conv_bytes: int = 2) -> int:
        """What ReplaySSM keeps per request to redo rounds: d and k (with low parts below float32), and a gate."""
        rows = self.value_heads * self.value_dim + self.key_heads * self.key_dim
        parts = 1 if conv_bytes == 4 else 2
        return self.layers * length * (rows * conv_bytes * parts + self.value_heads * 4)

    def states(self, width: int, ssm_bytes: int) -> int:
        """What verify keeps without ReplaySSM: the state after each row."""
        return self.layers * width * self.value_heads * self.value_dim * self.key_dim * ssm_bytes

    def windows(self, width: int, conv_bytes: int = 2) -> int:
        """Convolution inputs of W rows and of the K - 1 before the second, kept with and without ReplaySSM. SGLang's
        budget leaves them out under ReplaySSM; its pool does not."""
        columns = width + self.kernel - 2
        return (
            self.layers * (self.value_heads * self.value_dim + 2 * self.key_heads * self.key_dim) * columns * conv_bytes
        )


def read_recurrent(config: dict[str, Any], layers: int) -> Recurrent | None:
    """None for a target without linear-attention layers. config: its text part."""
    kinds = config.get("layer_types")
    if "linear_num_value_heads" not in config:
        return None
    if not kinds:
        every = int(config.get("full_attention_interval") or 4)
        kinds = ["full_attention" if (i + 1) % every == 0 else "linear_attention" for i in range(layers)]
    return Recurrent(
        layers=list(kinds).count("linear_attention"),
        value_heads=int(config["linear_num_value_heads"]),
        key_heads=int(config["linear_num_key_heads"]),
        value_dim=int(config["linear_value_head_dim"]),
        key_dim=int(config["linear_key_head_dim"]),
        kernel=int(config["linear_conv_kernel_dim"]),
        dtype=str(config.get("mamba_ssm_dtype") or "float32"),
    )


@dataclass(frozen=True)
class StateBytes:
    """Of one running request."""

    slots: int  # saved states
    slot: int  # bytes of one
    verify: int  # what a verify step needs beside: states of W rows or the ring, and convolution windows
    replay: bool

    @property
    def total(self) -> int:
        return self.slots * self.slot + self.verify


def state_bytes(recurrent: Recurrent, words: Sequence[str], width: int, replay: bool | None = None) -> StateBytes:
    """With the flags of a command. replay: as if ReplaySSM were on or off; None: as the command has it."""
    ssm = BYTES.get(value_of(words, "--mamba-ssm-dtype") or recurrent.dtype, 4)
    conv = 4 if value_of(words, "--dtype") == "float32" else 2
    slot = recurrent.slot(ssm, conv)
    if replay is None:
        replay = "--enable-linear-replayssm-spec" in words
    ring = recurrent.ring(int(number_of(words, "--linear-replayssm-cache-len", 16)), conv)
    scratch = ring if replay else recurrent.states(width, ssm)
    return StateBytes(slots_of(words), slot, scratch + recurrent.windows(width, conv), replay)


def slots_of(words: Sequence[str]) -> int:
    """Slots that SGLang reckons with for a running request."""
    if "--disable-radix-cache" in words:
        return 1
    strategy = value_of(words, "--mamba-radix-cache-strategy")
    if strategy == "extra_buffer_lazy":
        return SLOTS + LAZY
    if strategy == "extra_buffer":
        return SLOTS + (1 if "--disable-overlap-schedule" in words else OVERLAP)
    return SLOTS
