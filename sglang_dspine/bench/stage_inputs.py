"""Random weights and inputs at a drafter's shape, on the GPU, as the stages of a draft round see them."""

from __future__ import annotations

import torch

from ..kernels.bridge.naive import LayerBridge
from ..kernels.head_rows.form import StoredHead
from ..kernels.table_walk.parts import Draw, Prepared, Proposal, TableWeights
from .shape import Shape

EPS = 1e-6


def normal(*shape: int, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape, dtype=torch.float32, device="cuda") * scale).to(torch.bfloat16)


class Weights:
    """One drafter's bridge, the target's head, and what the table precomputes."""

    def __init__(self, s: Shape) -> None:
        self.shape = s
        self.head = torch.cat([normal(8192, s.hidden, scale=s.hidden**-0.5) for _ in range(31)])
        self.head = self.head[: s.vocab].contiguous()
        shared = normal(3 * s.message, s.rank, scale=s.rank**-0.5)
        gate, told = normal(s.vocab, s.message), normal(s.vocab, s.message)
        bias = normal(s.message, scale=0.2)
        self.layers = [
            LayerBridge(
                normal(s.rank, s.hidden, scale=s.hidden**-0.5), shared, bias,
                normal(s.hidden, s.message, scale=s.message**-0.5), gate, told,
            )
            for _ in range(s.layers)
        ]  # fmt: skip
        write = self.layers[-1].write
        norm = 1 + normal(s.hidden, scale=0.1)
        gram = write.float().T @ write.float()
        self.table = TableWeights(write, gram, norm, gate, told, EPS)
        seen = torch.cat([(part * norm) @ write for part in self.head.split(8192)])
        self.prepared = Prepared(gram.to(write.dtype), seen)
        self.stored = StoredHead(self.head)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head[ids]


class Batch:
    """One batch of `n` blocks of `width` rows."""

    def __init__(self, s: Shape, n: int, width: int) -> None:
        self.n, self.width, self.rows = n, width, width - 1
        self.residual, self.delta = normal(n, width, s.hidden), normal(n, width, s.hidden)
        self.before = normal(n, width, s.hidden)
        self.receive = normal(n, width, s.message)[:, 1:]
        self.anchor = torch.randint(s.vocab, (n,), device="cuda")
        self.u = normal(n * self.rows, s.hidden)
        self.draw = Draw(
            torch.linspace(0.3, 1.3, n, device="cuda"),
            torch.arange(n, device="cuda") % 2 == 0,
            torch.rand(n, self.rows, device="cuda"),
        )
        self.proposal = Proposal(
            torch.zeros(n, self.rows, dtype=torch.int64, device="cuda"),
            torch.zeros(n, self.rows, s.top_k, dtype=torch.int64, device="cuda"),
            torch.zeros(n, self.rows, s.top_k, device="cuda"),
        )
        # several batches' candidates: repeated ones would be read from the cache
        bytes_of_one = n * self.rows * s.top_k * 2 * (s.hidden + 3 * s.message)
        sets = min(32, max(1, -(-160_000_000 // bytes_of_one)))
        self.candidates = [torch.randint(s.vocab, (n, self.rows, s.top_k), device="cuda") for _ in range(sets)]

    def projected(self, weights: Weights) -> torch.Tensor:
        return (self.before @ weights.table.write)[:, 1:]
