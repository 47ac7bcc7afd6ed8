"""Is each kernel on this GPU what its plain form is? Compared on identical inputs, at the drafter's shape."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..kernels.bridge.naive import LayerBridge, inject_naive
from ..kernels.bridge.plan import plan_injection
from ..kernels.head_rows.form import StoredHead
from ..kernels.table_walk.naive import table_naive, walk_naive
from ..kernels.table_walk.parts import TableWeights
from ..kernels.table_walk.plan import plan_table_walk
from ..kernels.top_k.plan import plan_top_k
from .stage_inputs import Batch, Weights, quantised_heads

ALLOWED = 1.1  # times the plain BF16 form's own error
Finding = tuple[str, bool, str]  # what, whether it holds, figures


def error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Root mean square of the difference over that of `exact`."""
    difference = (found.float() - exact.float()).square().mean().sqrt()
    return float(difference / exact.float().square().mean().sqrt())


def check_bridge(w: Weights, b: Batch) -> Iterator[Finding]:
    layer = w.layers[0]
    launches, found = plan_injection(b.residual, b.delta, b.anchor, layer)
    for launch in launches:
        launch.run()
    plain = inject_naive(b.residual, b.delta, b.anchor, layer)
    h = (b.residual + b.delta).float()
    exact = inject_naive(h, None, b.anchor, LayerBridge(*(t.float() if i < 4 else t for i, t in enumerate(layer))))
    same = torch.equal(found.before, plain.before) and torch.equal(found.after[:, 0], plain.before[:, 0])
    yield "bridge: residual sum and anchor rows bit for bit", same, ""
    for name in ("after", "receive"):
        ours, theirs = (error(getattr(i, name), getattr(exact, name)) for i in (found, plain))
        yield f"bridge: {name} against float32", ours <= ALLOWED * theirs, f"kernel {ours:.2e}, torch {theirs:.2e}"


def check_top_k(w: Weights, b: Batch) -> Iterator[Finding]:
    logits = b.u @ w.head.T
    launches, values, ids = plan_top_k(logits, w.shape.vocab, w.shape.top_k)
    for launch in launches:
        launch.run()
    expected = torch.sort(logits, dim=-1, descending=True, stable=True)
    k = w.shape.top_k
    ties = int((expected.values[:, :k] == expected.values[:, 1 : k + 1]).sum())
    same = torch.equal(ids, expected.indices[:, :k]) and torch.equal(values, expected.values[:, :k])
    yield "top-k: ids and values are the stable sort's", same, f"{ties} ties among {len(ids)} rows"


def check_table(w: Weights, b: Batch) -> Iterator[Finding]:
    x, candidates = b.before[:, 1:], b.candidates[0]
    launches, scores = plan_table_walk(
        x, b.receive, b.projected(w), candidates, b.anchor, w.table, w.prepared, w.stored, b.draw, b.proposal
    )
    for launch in launches:
        launch.run()
    plain = table_naive(x, b.receive, candidates, b.anchor, w.table, w.rows)
    t = w.table
    wide = TableWeights(t.write.float(), t.gram, t.norm.float(), t.token_gate, t.token_message, t.eps)
    exact = table_naive(
        x.float(), b.receive.float(), candidates, b.anchor, wide, lambda ids: w.stored.rows(ids, torch.float32)
    )
    ours, theirs = error(scores, exact), error(plain, exact)
    largest = float(((scores - exact).abs().amax((2, 3)) / exact.abs().amax((2, 3))).max())
    figures = f"kernel {ours:.2e}, torch {theirs:.2e}; worst row of the kernel {largest:.2e}"
    yield "table: every row against float32", ours <= ALLOWED * theirs, figures

    tokens, q = walk_naive(candidates, scores, *b.draw)
    differ = int((tokens != b.proposal.tokens).sum())
    distance = float((q - b.proposal.q).abs().max()) if not differ else float("nan")
    yield "walk: the plain walk on the same scores", differ == 0, f"{differ} tokens differ, q within {distance:.1e}"
    sums = float((b.proposal.q.sum(-1) - 1).abs().max())
    yield "walk: q sums to one", sums < 1e-5, f"within {sums:.1e}"

    greedy = torch.ones_like(b.draw.greedy)
    draw = b.draw._replace(greedy=greedy)
    paths = [walk_naive(candidates, s, *draw)[0] for s in (scores, plain, exact)]
    against = [int((path != paths[2]).any(-1).sum()) for path in paths[:2]]
    yield (
        "walk: greedy paths of the float32 table (only near-ties may differ)",
        against[0] <= max(against[1], 1) + b.n // 8,
        f"of {b.n} paths {against[0]} differ by the kernel, {against[1]} by torch",
    )


def round_bits(w: Weights, b: Batch, dependent: bool) -> list[torch.Tensor]:
    """What five layers' bridges, top-k, table and walk leave, each reading what the one before it wrote."""
    stream: torch.Tensor = b.residual
    for layer in w.layers:
        launches, injected = plan_injection(stream, b.delta, b.anchor, layer, dependent=dependent)
        for launch in launches:
            launch.run()
        stream = injected.after
    u = stream[:, 1:].reshape(-1, w.shape.hidden)
    picks, values, ids = plan_top_k(u @ w.head.T, w.shape.vocab, w.shape.top_k, dependent)
    for launch in picks:
        launch.run()
    tail, scores = plan_table_walk(
        injected.before[:, 1:], injected.receive, (injected.before @ w.table.write)[:, 1:],
        ids.view(b.n, b.rows, -1), b.anchor, w.table, w.prepared, w.stored, b.draw, b.proposal, dependent=dependent,
    )  # fmt: skip
    for launch in tail:
        launch.run()
    return [stream, values, ids, scores, b.proposal.tokens.clone(), b.proposal.q.clone()]


def check_dependent(w: Weights, b: Batch, times: int = 50) -> Iterator[Finding]:
    """A kernel that did not wait would read what is not written yet: the same bits, every time."""
    expected = round_bits(w, b, False)
    differ = 0
    for _ in range(times):
        found = round_bits(w, b, True)
        differ += any(not torch.equal(x, y) for x, y in zip(found, expected, strict=True))
    yield "dependent launches: bits of a whole round", differ == 0, f"{differ} of {times} rounds differ"


def check_quantised(w: Weights, b: Batch) -> Iterator[Finding]:
    """The table on rows of an FP8 and of an NVFP4 head, read where they lie."""
    for stored, name in zip(quantised_heads(w), ("FP8", "NVFP4"), strict=True):
        w.take_head(stored)
        for what, holds, figures in check_table(w, b):
            yield f"{name} head, {what}", holds, figures
    w.take_head(StoredHead(w.head, w.shape.hidden))


def check_all(w: Weights) -> list[str]:
    """Print every finding; names of those that do not hold."""
    failed = []
    for n, width in ((1, 8), (3, 16), (32, 16)):
        b = Batch(w.shape, n, width)
        for check in (check_bridge, check_top_k, check_table, check_dependent, *([check_quantised] if n == 3 else [])):
            try:
                for what, holds, figures in check(w, b):
                    print(f"{'ok' if holds else 'FAILED'} {n} x {width} {what}: {figures}")
                    failed += [] if holds else [what]
            except Exception as problem:  # the other kernels' findings are wanted all the same
                print(f"FAILED {n} x {width} {check.__name__}: {type(problem).__name__}: {str(problem)[:300]}")
                failed.append(check.__name__)
        torch.cuda.synchronize()
    return failed
