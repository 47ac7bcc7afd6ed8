"""The reference's draft forward with one layer's weights in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from sglang_dspine.config import DraftConfig

from .arithmetic import DEFAULT, Arithmetic
from .backbone import draft_layer, project_context
from .bridge import Bridge, features, inject
from .drafter import DraftStates

Read = Callable[..., Mapping[str, Tensor]]  # name prefixes -> weights whose canonical names begin with one of them


def layerwise_states(
    h: Tensor,
    taps: Tensor,
    anchor_codes: Tensor,
    lengths: Tensor,
    config: DraftConfig,
    read: Read,
    arithmetic: Arithmetic = DEFAULT,
) -> DraftStates:
    """What `Drafter.forward` gives, `read` being asked for each layer when its turn comes.

    h [N, B, H]: embedded rows; taps [N, S, taps·H]; anchor_codes [N, r]: the code of each block's anchor; lengths [N].
    """
    context = project_context(taps, read("fc.", "hidden_norm."), config, arithmetic)
    shared = {**read("injection."), "transfer_codes": anchor_codes}
    bridge, anchor = Bridge.from_weights(shared, config.num_layers), torch.arange(len(h))
    seen, before = [], h
    for layer in range(config.num_layers):
        before = draft_layer(h, context, lengths, layer, read(f"layers.{layer}."), config, arithmetic)
        h = inject(before, anchor, layer, bridge, arithmetic)
        seen.append(features(h, bridge.readouts[layer], arithmetic))
    hidden = arithmetic.rms_norm(h, read("norm.")["norm.weight"], config.rms_norm_eps)
    return DraftStates(hidden, before, torch.stack(seen))
