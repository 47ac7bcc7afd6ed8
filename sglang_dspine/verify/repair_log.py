"""Count repaired rows and log the first request that needed it, without a device sync in the round."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import torch

from .repair_metrics import repaired_rows

logger = logging.getLogger(__name__)


class RepairLog:
    """`total` lags by one round on a GPU: flags travel to the host while the next round runs."""

    def __init__(self) -> None:
        self.total = 0  # repaired rows so far
        self._pending: tuple[torch.Tensor, list[str], torch.cuda.Event | None] | None = None

    def note(self, bad: torch.Tensor, rids: Sequence[str]) -> None:
        """bad: [N, w] bool flags of one round's rows; rids: the N request ids."""
        self.poll()
        flags = bad.sum(-1).to("cpu", non_blocking=True)
        event = torch.cuda.Event() if bad.is_cuda else None
        if event is not None:
            event.record()
        self._pending = (flags, list(rids), event)
        if event is None:
            self.poll()

    def poll(self) -> None:
        """Take in the flags of the last round."""
        if self._pending is None:
            return
        flags, rids, event = self._pending
        if event is not None:
            event.synchronize()  # a whole round has passed; this does not wait
        self._pending = None
        rows = int(flags.sum())
        if rows and not self.total:
            first = rids[int(flags.nonzero()[0])]
            logger.warning(
                "DSPINE: non-finite target logits in request %s repaired (%d rows); later ones are only counted",
                first,
                rows,
            )
        self.total += rows
        if rows and (exported := repaired_rows()) is not None:
            exported.inc(rows)
