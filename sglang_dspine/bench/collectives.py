"""What the ranks of a tensor-parallel server send each other in one decode round: how often, and how many bytes."""

from __future__ import annotations

from dataclasses import dataclass

from ..kernels.shape import SHAPE_27B, Shape

SUM, GATHER, BROADCAST = "all-reduce", "all-gather", "broadcast"


@dataclass(frozen=True)
class Collective:
    """`count` equal ones a round. bytes: of one tensor that is summed or sent; of a rank's own part of a gather."""

    name: str
    kind: str
    count: int
    bytes: int
    ours: bool = False  # else SGLang's own layers

    def sent(self, ranks: int) -> float:
        """Bytes a rank sends in all of them, by rings; a tree or NVLink's own sums move no more."""
        each = {SUM: 2 * (ranks - 1) / ranks, GATHER: ranks - 1, BROADCAST: 1}[self.kind]
        return self.count * self.bytes * each


def round_collectives(
    batch: int,
    width: int,
    ranks: int,
    target_layers: int = 64,
    s: Shape = SHAPE_27B,
    size: int = 2,
    vocab_padded: int = 0,
    block: int = 16,
) -> list[Collective]:
    """Of one round of `batch` requests at `width` over `ranks` (2 or more); `size` bytes a number of the model's dtype.

    A dense or hybrid target: two sums a layer, of the mixer's and the MLP's output. vocab_padded: 0 for the vocabulary.
    """
    rows, candidates = batch * width, batch * (width - 1) * s.top_k
    stream, exact = rows * s.hidden * size, 3 if size == 2 else 1  # numbers that hold an fp32 dot
    logits = rows * -(-(vocab_padded or s.vocab) // ranks) * size
    return [
        Collective("draft: embedding", SUM, 1, stream),
        Collective("draft: attention and MLP", SUM, 2 * s.layers, stream),
        Collective("draft: candidates", GATHER, 1, candidates * 8, ours=True),
        Collective("draft: head parts of the table", SUM, 1, candidates * (s.message + exact) * size, ours=True),
        Collective("draft: proposals", BROADCAST, 1, batch * (block - 1) * 8, ours=True),
        Collective("verify: embedding", SUM, 1, stream),
        Collective("verify: mixer and MLP", SUM, 2 * target_layers, stream),
        Collective("verify: logits", GATHER, 1, logits),
        Collective("accept: lengths and bonus", BROADCAST, 1, 2 * batch * 8, ours=True),
    ]


def counts(found: list[Collective]) -> dict[str, int]:
    """How many of each kind."""
    return {kind: sum(c.count for c in found if c.kind == kind) for kind in (SUM, GATHER, BROADCAST)}


def naive_head_bytes(batch: int, width: int, s: Shape = SHAPE_27B, size: int = 2) -> int:
    """Of the sum that whole head rows would take: what `kernels/head_share` spares."""
    return batch * (width - 1) * s.top_k * s.hidden * size
