"""The rounds a server drafted, drafted again by the reference at the same anchors of the same text, and compared.

Greedy text says nothing about a drafter: it stays right with any. So proposals, table rows and q are compared, and two
walks may part only where the two best scores lie within rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import torch

from sglang_dspine.checkpoint import load_checkpoint
from sglang_dspine.reference import Drafter, Proposal

from .models import transformers_model
from .oracle import observe
from .pairs import Pair
from .round_log import Drafted

BOUND = 2e-5  # float32 through other orders of sums, relative to the largest score of a row


@cache
def reference_drafter(pair: Pair, bridge: bool = True) -> Drafter:
    """The reference on the pair's weights in float32; without `bridge` it writes nothing."""
    config, weights = load_checkpoint(Path(pair.draft), torch.float32)
    if not bridge:
        weights |= {k: torch.zeros_like(w) for k, w in weights.items() if k.startswith("injection.writes.")}
    model = transformers_model(pair.target)
    return Drafter(config, weights, model.get_input_embeddings().weight.detach(), model.lm_head.weight.detach())


@torch.no_grad()
def draft_again(drafter: Drafter, pair: Pair, text: Sequence[int], rounds: Sequence[Drafted]) -> Proposal:
    """The reference's blocks behind the anchors of `rounds`, all of one text, greedy."""
    taps = observe(pair.target, text, drafter.config.target_layer_ids).taps
    lengths = torch.tensor([r.length for r in rounds])
    taps = taps[: int(lengths.max())].expand(len(rounds), -1, -1)
    anchors = torch.tensor([r.anchor for r in rounds])
    return drafter.propose(taps, anchors, lengths=lengths, rows=len(rounds[0].proposals) + 1)


@dataclass
class Comparison:
    """What came of it. `wrong` names rounds whose walk or numbers differ beyond rounding."""

    rounds: int = 0
    ties: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    table_rows: int = 0  # rows of scores held against the reference's
    table_error: float = 0.0  # largest, relative

    def holds(self) -> None:
        assert self.rounds > 0, "nothing was compared"
        assert not self.wrong, f"{len(self.wrong)} of {self.rounds} rounds differ, first {self.wrong[0]}"
        assert self.table_rows > 0, "no row of a table could be compared"
        assert self.table_error < BOUND, f"table rows differ by {self.table_error:.1e}, expected below {BOUND:.0e}"
        assert len(self.ties) <= self.rounds // 20, f"too many ties to mean anything: {self.ties}"


def compare(pair: Pair, text: Sequence[int], rounds: Sequence[Drafted], into: Comparison | None = None) -> Comparison:
    """Hold greedy rounds of one text (prompt and all that was emitted) to the reference."""
    result = into or Comparison()
    drafter = reference_drafter(pair)
    for r in rounds:
        assert r.anchor == text[r.length], "a round's anchor is the text's token at its length"
    again = draft_again(drafter, pair, text, rounds)
    for i, r in enumerate(rounds):
        result.rounds += 1
        where = f"{r.rid} at {r.length}"
        _compare_tables(result, r, again.candidates[i], again.scores[i])
        parted = (r.proposals != again.tokens[i]).nonzero()
        if len(parted):
            row = int(parted[0])
            gap = _gap(r, again.candidates[i], again.scores[i], again.choices[i], row)
            listed = result.ties if gap < BOUND else result.wrong
            listed.append(f"{where}: row {row + 1} proposes {int(r.proposals[row])}, not {int(again.tokens[i, row])}")
    return result


def _gap(r: Drafted, candidates: torch.Tensor, scores: torch.Tensor, choices: torch.Tensor, row: int) -> float:
    """How far apart the two tokens' scores lie by the reference, relative to the row's largest; inf if one is no
    candidate there (a tie at the edge of the candidates counts as wrong: it would be rare, and hides a wrong head)."""
    served = (candidates[row] == r.proposals[row]).nonzero()
    if not len(served):
        return float("inf")
    after = scores[row, int(choices[row - 1]) if row else 0]
    return float((after[choices[row]] - after[served[0, 0]]).abs() / after.abs().max())


def _compare_tables(result: Comparison, r: Drafted, candidates: torch.Tensor, scores: torch.Tensor) -> None:
    """Rows whose own and whose predecessors' candidates agree in order: a tie among them is no error of the table."""
    same = (r.candidates == candidates).all(-1)
    before = torch.cat([same.new_ones(1), same[:-1]])
    for row in (same & before).nonzero()[:, 0].tolist():
        error = (r.scores[row] - scores[row]).abs().max() / scores[row].abs().max()
        result.table_rows += 1
        result.table_error = max(result.table_error, float(error))
