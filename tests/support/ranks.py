"""Ranks of a tensor-parallel group as threads of this process: collectives, counted, and SGLang's shards of a head."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, TypeVar

import torch

from sglang_dspine.draft.ranks import Ranks

T = TypeVar("T")


class Group:
    """`size` threads that wait for each other in every collective; `calls` counts what rank 0 took part in."""

    def __init__(self, size: int) -> None:
        self.size, self.calls, self.bytes = size, Counter[str](), Counter[str]()
        self._barrier, self._posted = threading.Barrier(size, timeout=60), [torch.empty(0)] * size
        self._here = threading.local()

    @property
    def rank(self) -> int:
        return self._here.rank

    @property
    def ranks(self) -> Ranks:
        return Ranks(self.size, lambda t: torch.cat(self._exchange("gather", t), -1), self._sum)

    def sync(self, site: Any, values: torch.Tensor) -> torch.Tensor:
        """SpecTpSync.sync"""
        assert values.is_contiguous(), "a broadcast takes no strided tensor"
        return values.copy_(self._exchange("broadcast", values)[0])

    def enabled(self, site: Any) -> bool:
        return True

    def run(self, work: Callable[[int], T]) -> list[T]:
        """What `work(rank)` returns on each rank."""

        def on(rank: int) -> T:
            self._here.rank = rank
            try:
                return work(rank)
            except BaseException:
                self._barrier.abort()
                raise

        with ThreadPoolExecutor(self.size) as pool:
            return [future.result() for future in [pool.submit(on, rank) for rank in range(self.size)]]

    def _sum(self, values: torch.Tensor) -> torch.Tensor:
        return torch.stack(self._exchange("sum", values)).sum(0)

    def _exchange(self, what: str, values: torch.Tensor) -> list[torch.Tensor]:
        if self.rank == 0:
            self.calls[what] += 1
            self.bytes[what] += values.nbytes
        self._posted[self.rank] = values.clone()
        self._barrier.wait()
        found = list(self._posted)
        self._barrier.wait()
        return found


def shard(weight: torch.Tensor, rank: int, size: int, multiple: int = 8, padding: float = 100.0) -> SimpleNamespace:
    """Rank `rank` of SGLang's vocabulary-parallel head: padded to equal shards, the padding scoring high here."""
    vocab = len(weight)
    rows = -(-vocab // (size * multiple)) * multiple
    start, end = min(rank * rows, vocab), min((rank + 1) * rows, vocab)
    held = torch.full((rows, weight.shape[1]), padding, dtype=weight.dtype)
    held[: end - start] = weight[start:end]
    return SimpleNamespace(
        weight=held, shard_indices=SimpleNamespace(org_vocab_start_index=start, num_org_elements=end - start)
    )
