"""Does this drafter belong to that target?"""

from __future__ import annotations

from ..config import DraftConfig
from ..errors import CheckpointError


def check_against_target(
    config: DraftConfig, target_hidden: int, target_vocab: int, target_layers: int, where: str = "drafter"
) -> None:
    """Raise CheckpointError unless width, vocabulary and depth of the target are the drafter's.

    `target_vocab` counts real tokens, without the rows a head is padded by.
    """
    problems = []

    def differ(what: str, drafter: object, target: object) -> None:
        problems.append(
            CheckpointError(
                where,
                f"{what} differs from the target's",
                expected=target,
                found=drafter,
                hint="this drafter was trained for another target",
            )
        )

    if config.hidden_size != target_hidden:
        differ("hidden_size", config.hidden_size, target_hidden)
    if config.vocab_size != target_vocab:
        differ("vocab_size", config.vocab_size, target_vocab)
    if config.num_target_layers not in (None, target_layers):
        differ("num_target_layers", config.num_target_layers, target_layers)
    stray = [tap for tap in config.target_layer_ids if tap >= target_layers]
    if stray:
        problems.append(
            CheckpointError(
                where,
                "target_layer_ids names layers the target does not have",
                expected=f"ids in [0, {target_layers})",
                found=stray,
            )
        )
    elif target_layers - 1 in config.target_layer_ids:
        problems.append(
            CheckpointError(
                where,
                "target_layer_ids names the target's last layer",
                expected=f"ids below {target_layers - 1}",
                found=target_layers - 1,
                hint="SGLang captures a layer's output on entry to the next one",
            )
        )
    if problems:
        raise CheckpointError.together(where, problems)


def range_warning(config: DraftConfig, context_length: int) -> str | None:
    """What to tell a user whose context outruns the drafter's RoPE, naming the first position outside."""
    if context_length <= config.rope_range:
        return None
    kind = "RoPE" if config.rope_scaling is None else "YaRN"
    return (
        f"the drafter's {kind} covers {config.rope_range} positions, the server allows {context_length}: "
        f"from position {config.rope_range} on proposals may be poor (text stays exact); "
        f"pass --context-length {config.rope_range} to stay inside"
    )
