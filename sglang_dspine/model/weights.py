"""Checkpoint tensors -> parameters, with nothing missing and nothing left over."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

import torch

from ..config import DraftConfig
from ..errors import CheckpointError
from .bridge import Bridge

logger = logging.getLogger(__name__)

Weights = Iterable[tuple[str, torch.Tensor]]
PREFIX = "injection."


def load_bridge(bridge: Bridge, weights: Weights, config: DraftConfig) -> Iterator[tuple[str, torch.Tensor]]:
    """Take the bridge's tensors out of `weights`, pass the others on, and tabulate the codes at the end."""
    m, seen = config.message_size, set()
    codes: torch.Tensor | None = None
    slots = {
        "receiver_gate.weight": bridge.features_to_message[:m],
        "predecessor_gate.weight": bridge.features_to_message[m : 2 * m],
        "message.weight": bridge.features_to_message[2 * m :],
        "bias": bridge.bias,
    }
    for i in range(config.num_layers):
        slots[f"readouts.{i}.weight"] = bridge.readouts[i]
        slots[f"writes.{i}.weight"] = bridge.writes[i]
    for name, tensor in weights:
        short = name.removeprefix("model.")
        if short == "transfer_codes":
            codes = tensor
        elif short.startswith(PREFIX) and (key := short[len(PREFIX) :]) in slots:
            _copy(name, slots[key], tensor)
            seen.add(key)
        elif short != "transfer_ready":
            yield name, tensor
    missing = sorted(PREFIX + key for key in slots.keys() - seen)
    if codes is None or missing:
        raise CheckpointError(
            "draft checkpoint", "tensors missing", found=missing + ["transfer_codes"] * (codes is None)
        )
    if tuple(codes.shape) != (config.vocab_size, config.transfer_rank):
        raise CheckpointError(
            "draft checkpoint",
            "transfer_codes of another vocabulary or rank",
            expected=(config.vocab_size, config.transfer_rank),
            found=tuple(codes.shape),
        )
    bridge.project_codes(codes)
    kept = bridge.token_gate.nbytes + bridge.token_message.nbytes
    spared = codes.numel() * bridge.token_gate.element_size()
    logger.info(
        "DSPINE: codes stay off the device, %.2f GB spared; their projections take %.2f GB", spared / 1e9, kept / 1e9
    )


def _copy(name: str, target: torch.Tensor, source: torch.Tensor) -> None:
    if target.shape != source.shape:
        raise CheckpointError(
            "draft checkpoint", f"{name} has the wrong shape", expected=tuple(target.shape), found=tuple(source.shape)
        )
    with torch.no_grad():
        target.copy_(source)
