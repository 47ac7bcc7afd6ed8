"""Count repaired rows by cause and name each request that needed it once, without a device sync in the round."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Sequence

import torch

from .repair import CAUSES
from .repair_metrics import repaired_rows

logger = logging.getLogger(__name__)
REMEMBERED = 4096  # requests that were named already


class RepairLog:
    """Counts lag by one round on a GPU: causes travel to the host while the next round runs."""

    def __init__(self, exported: bool = False) -> None:
        """exported: whether SGLang exports metrics from this process."""
        self.by_cause: Counter[str] = Counter()
        self._exported = repaired_rows() if exported else None
        self._named: OrderedDict[str, None] = OrderedDict()
        self._pending: tuple[torch.Tensor, list[str], torch.cuda.Event | None] | None = None

    @property
    def total(self) -> int:
        """Repaired rows so far."""
        return self.by_cause.total()

    def note(self, causes: torch.Tensor, rids: Sequence[str]) -> None:
        """causes: [N, w] int8 of one round's rows (`repair.CAUSES`); rids: the N request ids."""
        self.poll()
        if not causes.is_cuda:
            self._take(causes, rids)
            return
        host = torch.empty(causes.shape, dtype=causes.dtype, pin_memory=True)  # pageable memory would be waited for
        host.copy_(causes, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self._pending = (host, list(rids), event)

    def poll(self) -> None:
        """Take in the causes of the last round."""
        if self._pending is None:
            return
        causes, rids, event = self._pending
        self._pending = None
        if event is not None:
            event.synchronize()  # a whole round has passed; this does not wait
        self._take(causes, rids)

    def _take(self, causes: torch.Tensor, rids: Sequence[str]) -> None:
        if not bool(causes.any()):
            return
        for rid, row in zip(rids, causes.tolist(), strict=True):
            found = Counter(CAUSES[code] for code in row if code)
            if found:
                self._count(found)
                self._name(rid, found)

    def _count(self, found: Counter[str]) -> None:
        self.by_cause.update(found)
        if self._exported is not None:
            for cause, rows in found.items():
                self._exported.labels(cause=cause).inc(rows)

    def _name(self, rid: str, found: Counter[str]) -> None:
        if rid in self._named:
            return
        self._named[rid] = None
        if len(self._named) > REMEMBERED:
            self._named.popitem(last=False)
        what = ", ".join(f"{rows} x {cause}" for cause, rows in sorted(found.items()))
        logger.warning(
            "DSPINE: target rows of request %s were not finite and were repaired (%s); later ones of this request are "
            "only counted", rid, what,
        )  # fmt: skip
