"""Every launch of a draft round at a drafter's shape, on `meta` tensors: nothing is allocated, no GPU is needed."""

from __future__ import annotations

import torch

from .bridge.naive import LayerBridge
from .bridge.plan import plan_injection
from .head_rows.form import DENSE, FP8, NVFP4, StoredHead
from .head_share.naive import Share
from .head_share.plan import plan_head_share
from .launch import Launch
from .repair.plan import plan_repair
from .shape import SHAPE_27B, Shape
from .table_walk.parts import Draw, Given, Prepared, Proposal, TableWeights
from .table_walk.plan import plan_table_walk
from .top_k.plan import plan_top_k


def meta(*shape: int, of: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(*shape, dtype=of, device="meta")


def stored_head(s: Shape, form: int) -> StoredHead:
    if form == DENSE:
        return StoredHead(meta(s.vocab, s.hidden), s.hidden)
    if form == FP8:
        return StoredHead(meta(s.vocab, s.hidden, of=torch.float8_e4m3fn), s.hidden, FP8, meta(s.vocab, of=torch.float))
    scales = meta(s.vocab, s.hidden // 16, of=torch.float8_e4m3fn)
    packed = meta(s.vocab, s.hidden // 2, of=torch.uint8)
    return StoredHead(packed, s.hidden, NVFP4, scales, meta(1, of=torch.float32))


def bridge_launches(batch: int, width: int, s: Shape = SHAPE_27B, dependent: bool | None = None) -> list[Launch]:
    """The kernels among them: a product of the vendor's is not ours to compile."""
    layer = LayerBridge(
        meta(s.rank, s.hidden), meta(3 * s.message, s.rank), meta(s.message), meta(s.hidden, s.message),
        meta(s.vocab, s.message), meta(s.vocab, s.message),
    )  # fmt: skip
    stream = meta(batch, width, s.hidden)
    delta, anchor = meta(batch, width, s.hidden), meta(batch, of=torch.int64)
    planned, _ = plan_injection(stream, delta, anchor, layer, dependent=dependent)
    return [launch for launch in planned if isinstance(launch, Launch)]


def table_launches(
    batch: int,
    width: int,
    form: int = DENSE,
    s: Shape = SHAPE_27B,
    dependent: bool | None = None,
    given: Given | None = None,
) -> list[Launch]:
    rows, k, ids = width - 1, s.top_k, torch.int64
    codes, weights = meta(s.vocab, s.message), table_weights(s)
    draw = Draw(meta(batch, of=torch.float32), meta(batch, of=torch.bool), meta(batch, 15, of=torch.float32))
    proposal = Proposal(meta(batch, 15, of=ids), meta(batch, 15, k, of=ids), meta(batch, 15, k, of=torch.float32))
    return plan_table_walk(
        meta(batch, width, s.hidden)[:, 1:],
        meta(batch, width, s.message, of=torch.float32)[:, 1:],
        meta(batch, width, s.message)[:, 1:],
        meta(batch, rows, k, of=ids),
        meta(batch, of=ids),
        weights,
        Prepared(meta(s.message, s.message), codes),
        stored_head(s, form),
        draw,
        proposal,
        dependent=dependent,
        given=given,
    )[0]


def table_weights(s: Shape) -> TableWeights:
    codes = meta(s.vocab, s.message)
    gram = meta(s.message, s.message, of=torch.float32)
    return TableWeights(meta(s.hidden, s.message), gram, meta(s.hidden), codes, codes, 1e-6)


def rank_launches(batch: int, width: int, ranks: int, form: int = DENSE, s: Shape = SHAPE_27B) -> list[Launch]:
    """A rank's share of the table's input, and table and walk on the sum of all shares."""
    x, candidates = meta(batch, width, s.hidden)[:, 1:], meta(batch, width - 1, s.top_k, of=torch.int64)
    share, owned = Share(candidates, s.message, torch.bfloat16), s.vocab // ranks
    prepared = Prepared(meta(s.message, s.message), meta(owned, s.message))
    launch = plan_head_share(x, candidates, table_weights(s), prepared, stored_head(s, form), owned, owned, share)
    given = Given(meta(*candidates.shape, of=torch.float32), share.seen)
    return [launch, *table_launches(batch, width, form, s, given=given)]


def top_k_launches(batch: int, width: int, s: Shape = SHAPE_27B, dependent: bool | None = None) -> list[Launch]:
    return plan_top_k(meta(batch * (width - 1), s.vocab), s.vocab, s.top_k, dependent)[0]


def repair_launches(batch: int, width: int, s: Shape = SHAPE_27B) -> list[Launch]:
    rows = batch * width
    return plan_repair(meta(rows, s.vocab, of=torch.float32), meta(rows, of=torch.float32))


def launches(batch: int, width: int, dependent: bool | None = None) -> list[Launch]:
    """The repair of the verify before, then one layer's bridge, top-k, table and walk of a round with a dense head."""
    return [
        *repair_launches(batch, width),
        *bridge_launches(batch, width, dependent=dependent),
        *top_k_launches(batch, width, dependent=dependent),
        *table_launches(batch, width, dependent=dependent),
    ]
