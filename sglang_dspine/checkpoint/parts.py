"""The parts of a drafter, for reports of size."""

from __future__ import annotations

from collections.abc import Mapping

from ..headers import Stored

# part -> how the canonical names of its tensors begin; the first that fits takes the tensor
PARTS = {
    "layers": ("layers.",),
    "fc": ("fc.",),
    "codes": ("transfer_",),
    "readouts": ("injection.readouts.",),
    "writes": ("injection.writes.",),
    "message and gates": ("injection.",),
    "norms": ("norm.", "hidden_norm."),
    "other": ("",),
}


def by_part(tensors: Mapping[str, Stored]) -> dict[str, list[Stored]]:
    """Part to its tensors; parts without any are left out."""
    members: dict[str, list[Stored]] = {part: [] for part in PARTS}
    for name, stored in tensors.items():
        members[next(part for part, starts in PARTS.items() if name.startswith(starts))].append(stored)
    return {part: found for part, found in members.items() if found}


def part_bytes(tensors: Mapping[str, Stored]) -> dict[str, int]:
    return {part: sum(stored.nbytes for stored in found) for part, found in by_part(tensors).items()}
