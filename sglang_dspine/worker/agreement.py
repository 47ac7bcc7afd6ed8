"""Rank 0's word, wherever ranks that computed the same thing could decide differently.

| could differ | who decides |
|---|---|
| candidates | the values gathered from all ranks, `draft/ranks.py` |
| the table's head parts | one sum over ranks |
| uniforms, the walk through the table, ties in it | rank 0: its tokens are broadcast |
| rows that are not finite, penalties, filters, uniforms, ties, simulation | rank 0: accepted and bonus are broadcast |
| a prefill's token | rank 0, by SGLang's DFLASH worker |
| verify widths | counts of what was committed, the same by the above; plans are compared at start (`served_plan`) |
| grammars | each rank's own, fed by the broadcast tokens alone |

q is not sent: it serves rank 0's decision, and nobody else's counts. Broadcasts are SGLang's SpecTpSync, so
SGLANG_SPEC_TP_SYNC narrows them as it does for DFLASH. Two a round; none on one rank.
"""

from __future__ import annotations

from typing import Any

import torch

from ..verify.decide import Decision, commit_row


class Agreement:
    """sync: SGLang's SpecTpSync of the worker."""

    def __init__(self, sync: Any) -> None:
        from sglang.srt.speculative.spec_tp_sync import SpecTpSyncSite

        self._sync, self._sites = sync, SpecTpSyncSite

    def proposal(self, tokens: torch.Tensor) -> None:
        """Make rank 0's proposals everyone's, in place; runs inside the captured draft graph. tokens: contiguous."""
        self._sync.sync(self._sites.DFLASH_SELECTOR, tokens)

    def decision(self, found: Decision, tokens: torch.Tensor, greedy: bool) -> Decision:
        """Rank 0's decision about the block `tokens` [N, w]."""
        site = self._sites.DFLASH_ACCEPT_GREEDY if greedy else self._sites.DFLASH_ACCEPT_SAMPLE
        if not self._sync.enabled(site):
            return found
        accepted, bonus = self._sync.sync(site, torch.stack([found.accepted, found.bonus]))  # [2, N] int64
        return Decision(accepted, bonus, commit_row(tokens, accepted, bonus))
