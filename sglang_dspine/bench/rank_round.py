"""One rank's part of a decode round: what is split over ranks, what is whole on each, and what it sends."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..kernels.shape import SHAPE_27B, Shape
from .budget import Machine, Stage, draft_round
from .collectives import SUM, Collective, round_collectives
from .target import verify_round


@dataclass(frozen=True)
class RankRound:
    """One rank's part of one round."""

    draft: list[Stage]
    verify: list[Stage]
    collectives: list[Collective]
    ranks: int

    def floor(self, machine: Machine) -> float:
        """Seconds, without the wire."""
        return sum(stage.floor(machine) for stage in [*self.draft, *self.verify])

    def sent(self) -> float:
        return sum(c.sent(self.ranks) for c in self.collectives)


def draft_on(batch: int, width: int, context: int, ranks: int, s: Shape = SHAPE_27B) -> list[Stage]:
    """The draft's stages on one rank: heads, MLP and vocabulary split, `fc`, bridge, table and walk whole on each."""
    part = replace(
        s, heads=s.heads // ranks, kv_heads=max(1, s.kv_heads // ranks), intermediate=s.intermediate // ranks,
        vocab=s.vocab // ranks,
    )  # fmt: skip
    whole = {stage.name: stage for stage in draft_round(batch, width, context, s)}
    stages = draft_round(batch, width, context, part)
    return [whole[stage.name] if stage.name == "accept" else stage for stage in stages]  # rows arrive gathered


def round_on(batch: int, width: int, context: int, ranks: int) -> RankRound:
    sent = round_collectives(batch, width, ranks) if ranks > 1 else []
    return RankRound(draft_on(batch, width, context, ranks), verify_round(batch, width, context, ranks), sent, ranks)


def bridge_choice(batch: int, width: int, ranks: int, machine: Machine, s: Shape = SHAPE_27B) -> tuple[float, float]:
    """What splitting the bridge could spare: seconds of floor a round, and bytes that a rank would send for it.

    Split by the read-out's rank, a layer needs the sum of its partial messages [N*w, 3m], with the length of the
    features in it, before the gate; split by the message, the sum of the writes [N*w, H] after it.
    """
    bridge = next(stage for stage in draft_round(batch, width, s.window, s) if stage.name == "bridge")
    rows = batch * width
    sums = [
        Collective("messages", SUM, s.layers, 2 * rows * (3 * s.message + 1)),
        Collective("writes", SUM, s.layers, 2 * rows * s.hidden),
    ]
    return bridge.floor(machine) * (1 - 1 / ranks), sum(c.sent(ranks) for c in sums)


def memory_gb(ranks: int, s: Shape = SHAPE_27B) -> dict[str, float]:
    """Of one rank: the drafter's weights as served in FP8, and what comes beside them."""
    bridge = s.layers * 2 * s.rank * s.hidden // 2 + s.layers * s.hidden * s.message + 3 * s.message * s.rank
    return {
        "layers": s.layers * s.layer_weights / ranks / 1e9,
        "fc, whole on each": s.taps * s.hidden**2 / 1e9,
        "bridge, whole on each": 2 * bridge / 1e9,
        "token tables of the bridge, whole on each": 2 * 2 * s.vocab * s.message / 1e9,
        "U": 2 * s.vocab * s.message / ranks / 1e9,
    }
