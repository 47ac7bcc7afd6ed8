"""Random weights and inputs at a drafter's shape, on the GPU, as the stages of a draft round see them."""

from __future__ import annotations

import torch

from ..kernels.bridge.naive import LayerBridge
from ..kernels.head_rows.form import FP8, NVFP4, StoredHead
from ..kernels.shape import Shape
from ..kernels.table_walk.parts import Draw, Prepared, Proposal, TableWeights

EPS = 1e-6


def normal(*shape: int, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape, dtype=torch.float32, device="cuda") * scale).to(torch.bfloat16)


class Weights:
    """One drafter's bridge, the target's head, and what the table precomputes."""

    def __init__(self, s: Shape) -> None:
        self.shape = s
        chunks = -(-s.vocab // 8192)
        self.head = torch.cat([normal(8192, s.hidden, scale=s.hidden**-0.5) for _ in range(chunks)])
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
        self.take_head(StoredHead(self.head, s.hidden))

    def take_head(self, stored: StoredHead) -> None:
        """Score by the rows of `stored`."""
        self.stored, t = stored, self.table
        ids = torch.arange(self.shape.vocab, device="cuda").split(8192)
        seen = torch.cat([(self.rows(part) * t.norm) @ t.write for part in ids])
        self.prepared = Prepared(t.gram.to(t.write.dtype), seen)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        return self.stored.rows(ids, self.head.dtype)


def quantised_heads(w: Weights) -> list[StoredHead]:
    """FP8: the dense head's rows; NVFP4: any bytes, scales between 1/2 and 30."""
    s = w.shape
    largest = torch.cat([part.abs().amax(1).float() for part in w.head.split(8192)])
    scales = largest / 448
    values = torch.cat(
        [
            (part / scale[:, None]).to(torch.float8_e4m3fn).view(torch.uint8)
            for part, scale in zip(w.head.split(8192), scales.split(8192), strict=True)
        ]
    )
    fp8 = StoredHead(values.view(torch.float8_e4m3fn), s.hidden, FP8, scales)
    packed = torch.randint(256, (s.vocab, s.hidden // 2), dtype=torch.uint8, device="cuda")
    rows, blocks = -(-s.vocab // 128) * 128, -(-s.hidden // 64) * 4
    block_scales = torch.randint(0x30, 0x60, (rows, blocks), dtype=torch.uint8, device="cuda")
    one = torch.full((1,), 1e-3, device="cuda")
    return [fp8, StoredHead(packed, s.hidden, NVFP4, block_scales.view(torch.float8_e4m3fn), one)]


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
        sets = min(96, max(1, -(-160_000_000 // bytes_of_one)))
        self.candidates = [torch.randint(s.vocab, (n, self.rows, s.top_k), device="cuda") for _ in range(sets)]

    def projected(self, weights: Weights) -> torch.Tensor:
        return (self.before @ weights.table.write)[:, 1:]
