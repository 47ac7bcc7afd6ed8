"""What the ranks of a tensor-parallel drafter tell each other, and what a rank owns of the vocabulary.

Whatever decides must be the same number on every rank, although their arithmetic may differ in the last bit: candidates
are chosen from gathered values, the table's head parts come out of one sum, and rank 0's walk and rank 0's acceptance
stand (`worker/agreement.py`). Two collectives a draft forward, beside those of SGLang's own layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

Collective = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Ranks:
    """gather: [..., n] -> [..., size * n], ranks in order; total: sum over ranks, which may overwrite its input."""

    size: int
    gather: Collective
    total: Collective


def served_ranks() -> Ranks | None:
    """SGLang's tensor-parallel group; None for one rank."""
    from sglang.srt.runtime_context import get_parallel

    size = int(get_parallel().tp_size)
    if size == 1:
        return None
    from sglang.srt.distributed.communication_op import (
        tensor_model_parallel_all_gather,
        tensor_model_parallel_all_reduce,
    )

    def gather(values: torch.Tensor) -> torch.Tensor:
        return tensor_model_parallel_all_gather(values, dim=-1)

    return Ranks(size, gather, tensor_model_parallel_all_reduce)


def best_of_ranks(values: torch.Tensor, ids: torch.Tensor, k: int, ranks: Ranks) -> torch.Tensor:
    """The K best of all ranks' candidates, best first; of equal values the lowest id, as on one rank.

    values, ids [T, <= K]: this rank's best, best first, ids of the whole vocabulary. A rank that owns less than K
    tokens fills up with -inf. Both travel in one gather of 32-bit words. -> [T, K] int64
    """
    missing = k - values.shape[1]
    values = torch.nn.functional.pad(values.float(), (0, missing), value=float("-inf"))
    ids = torch.nn.functional.pad(ids.to(torch.int32), (0, missing))
    words = torch.stack([values.view(torch.int32), ids], -1).flatten(1)  # [T, 2K]
    everyone = ranks.gather(words).view(len(words), ranks.size * k, 2)
    # stable: ranks stand in the order of their ids, and so do equal values of one rank
    order = torch.sort(everyone[..., 0].view(torch.float32), dim=-1, descending=True, stable=True).indices[:, :k]
    return everyone[..., 1].gather(-1, order).long()
